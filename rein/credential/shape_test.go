package credential_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/internal/canonical"
	"github.com/rein-aharness/harness/rein/credential"
)

// A29
func TestADocumentThatCarriesASecretIsFoundWithoutShowingIt(t *testing.T) {
	t.Parallel()
	for document, place := range map[string]string{
		`{"a":{"password":"x"}}`:                                  "a.password",
		`{"a":[{"b":1},{"Api-Key":"x"}]}`:                         "a[1].Api-Key",
		`{"value":17}`:                                            "value",
		`{"token":true}`:                                          "token",
		`{"task":"use ghp_0123456789012345678901234567"}`:         "task",
		`{"list":["ok","-----BEGIN OPENSSH PRIVATE KEY-----"]}`:   "list[1]",
		`{"url":"https://user:pw@host/x"}`:                        "url",
		`{"a":"eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.sig"}`:           "a",
		`{"a":{"hvs.CAESIJabcdefghijklmnop":1}}`:                  "a",
		`{"a":"AKIA0123456789ABCDEF"}`:                            "a",
		`{"a":{"secret":"x"},"z":{"token":"y"}}`:                  "a.secret",
		`{"deep":{"deeper":{"deepest":[[{"private_key":"x"}]]}}}`: "deep.deeper.deepest[0][0].private_key",
	} {
		var tree any
		require.NoError(t, json.Unmarshal([]byte(document), &tree))
		got, found := credential.FindValue(tree)
		require.True(t, found, document)
		require.Equal(t, place, got)
	}
	for _, document := range []string{
		`{"token":{"route":"npm@1.0.0"}}`, `{"credentials":[]}`, `{"password_field":"password"}`, `{"policy":"harness-token"}`,
		`{"task":"rename the token parser; see https://host:8443/a@b"}`, `{}`, `[]`, `null`, `"skills"`, `{"secret":null}`,
	} {
		var tree any
		require.NoError(t, json.Unmarshal([]byte(document), &tree))
		place, found := credential.FindValue(tree)
		require.False(t, found, "%s at %s", document, place)
	}
}

func FuzzFindValue(f *testing.F) {
	f.Add([]byte(`{"a":[{"password":"x"}],"b":"ghp_0123456789012345678901234567"}`))
	f.Fuzz(func(t *testing.T, document []byte) {
		var tree any
		if canonical.DecodeJSON(document, &tree, canonical.Bounds{}) != nil {
			return
		}
		first, found := credential.FindValue(tree)
		second, again := credential.FindValue(tree)
		require.Equal(t, first, second)
		require.Equal(t, found, again)
		if !found {
			require.Empty(t, first)
		}
	})
}

// A28
func TestASecretIsSharedByItsCopiesAndWipedWithThem(t *testing.T) {
	t.Parallel()
	secret := credential.NewSecret([]byte(canary))
	copied := secret
	revealed := secret.Reveal()
	revealed[0] = 'X'
	require.Equal(t, canary, string(copied.Reveal()), "what is revealed is a copy")
	secret.Wipe()
	require.True(t, copied.Empty())
	require.Nil(t, copied.Reveal())
	var none credential.Secret
	none.Wipe()
	require.True(t, none.Empty())
	require.Nil(t, none.Reveal())
	require.Equal(t, credential.Redacted, none.LogValue().String())
}

// A2
func TestOnlyAnExactRevisionIsOne(t *testing.T) {
	t.Parallel()
	require.NoError(t, credential.CheckRevision("name-1@1.20.300"))
	for _, text := range []string{"", "name", "name@1", "name@1.0", "name@1.0.0-rc1", "name@latest", "Name@1.0.0", "name@1.0.00", "name@1.0.0\n", "na_me@1.0.0"} {
		require.Error(t, credential.CheckRevision(text), "%q", text)
	}
}
