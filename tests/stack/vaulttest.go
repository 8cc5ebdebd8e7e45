package stack

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/vault/api"
)

// VaultRoot is a client with all rights, for tests that look at what was left.
func (s *Stack) VaultRoot(t testing.TB) *api.Client {
	t.Helper()
	client, err := s.Vault.root()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloneConfig().HttpClient.CloseIdleConnections)
	return client
}

// Credential stores a secret (field → value) of the test's own, with a policy of its own that may read it. Both are
// removed when the test ends. A session's token may have the policy.
func (s *Stack) Credential(t testing.TB, fields map[string]string) (path, policy string) {
	t.Helper()
	vault := s.VaultRoot(t)
	name := strings.ToLower(rand.Text()[:12])
	secret := "harness/test/" + name
	path, policy = "secret/data/"+secret, "harness-test-"+name
	data := map[string]any{}
	for field, value := range fields {
		data[field] = value
	}
	if _, err := vault.KVv2("secret").Put(t.Context(), secret, data); err != nil {
		t.Fatal(err)
	}
	if err := vault.Sys().PutPolicyWithContext(t.Context(), policy, `path "`+path+`" { capabilities = ["read"] }`); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := errors.Join(vault.KVv2("secret").DeleteMetadata(ctx, secret), vault.Sys().DeletePolicyWithContext(ctx, policy)); err != nil {
			t.Errorf("remove the credential: %v", err)
		}
	})
	return path, policy
}

// WrappedSecretID makes a secret id of the worker's AppRole and returns the file of the token that it is wrapped in.
// It can be unwrapped once.
func (s *Stack) WrappedSecretID(t testing.TB) string {
	t.Helper()
	vault := s.VaultRoot(t)
	vault.SetWrappingLookupFunc(func(string, string) string { return "5m" })
	answer, err := vault.Logical().WriteWithContext(t.Context(), "auth/approle/role/"+workerRole+"/secret-id", nil)
	if err != nil {
		t.Fatal(err)
	}
	if answer == nil || answer.WrapInfo == nil {
		t.Fatal("the secret id came unwrapped")
	}
	path := filepath.Join(t.TempDir(), "wrapped-secret-id")
	if err := writeFile(path, []byte(answer.WrapInfo.Token+"\n")); err != nil {
		t.Fatal(err)
	}
	return path
}

// LiveTokens are the accessors of all tokens that live now and whose metadata has the value under the key.
func (s *Stack) LiveTokens(t testing.TB, key, value string) []string {
	t.Helper()
	vault := s.VaultRoot(t)
	list, err := vault.Logical().ListWithContext(t.Context(), "auth/token/accessors")
	if err != nil {
		t.Fatal(err)
	}
	keys, _ := list.Data["keys"].([]any)
	var live []string
	for _, entry := range keys {
		accessor, _ := entry.(string)
		token, err := vault.Auth().Token().LookupAccessorWithContext(t.Context(), accessor)
		if ended(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		metadata, _ := token.Data["meta"].(map[string]any)
		if metadata[key] == value {
			live = append(live, accessor)
		}
	}
	return live
}

// ended says whether Vault's answer means that a token has ended since it was listed.
func ended(err error) bool {
	var answer *api.ResponseError
	if !errors.As(err, &answer) {
		return false
	}
	switch answer.StatusCode {
	case http.StatusForbidden, http.StatusNotFound:
		return true
	default:
		return strings.Contains(strings.Join(answer.Errors, "\n"), "invalid accessor")
	}
}
