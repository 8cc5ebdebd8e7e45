package profiles_test

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/internal/canonical"
	"github.com/rein-aharness/harness/profiles"
)

const shipped = "../configs/catalog"

func document(t testing.TB) string {
	t.Helper()
	data, err := os.ReadFile(shipped + "/gofumpt.yaml")
	require.NoError(t, err)
	return string(data)
}

// edited is the shipped profile with one text in place of another, which must be there.
func edited(t testing.TB, old, replacement string) string {
	t.Helper()
	text := document(t)
	require.Contains(t, text, old)
	return strings.Replace(text, old, replacement, 1)
}

func parsed(t testing.TB, text string) *profiles.Profile {
	t.Helper()
	p, err := profiles.Parse([]byte(text))
	require.NoError(t, err)
	return p
}

// A6: the catalog that is shipped is valid, and has no way to say that a profile is ready.
func TestTheShippedCatalogHoldsNoReadyProfile(t *testing.T) {
	t.Parallel()
	list, err := profiles.Catalog(os.DirFS(shipped))
	require.NoError(t, err)
	require.NotEmpty(t, list)
	_, err = profiles.Parse([]byte(document(t) + "\nreadiness: ready\n"))
	require.Equal(t, evidence.CodeProfileMalformed, evidence.CodeOf(err))
}

// A2, A9, A23, A29, B1, B2, B12
func TestAProfileThatIsNotWholeExactAndWithoutSecretsIsRefused(t *testing.T) {
	t.Parallel()
	const malformed = evidence.CodeProfileMalformed
	for name, c := range map[string]struct {
		old, replacement string
		code             evidence.Code
	}{
		"version latest":          {"version: 1.0.0", "version: latest", malformed},
		"version range":           {"version: 1.0.0", "version: \"^1.0.0\"", malformed},
		"version wildcard":        {"version: 1.0.0", "version: 1.0.x", malformed},
		"version short":           {"version: 1.0.0", "version: \"1.0\"", malformed},
		"no name":                 {"name: gofumpt\n", "", malformed},
		"duplicate key":           {"version: 1.0.0", "version: 1.0.0\nversion: 1.0.0", malformed},
		"unknown field":           {"version: 1.0.0", "version: 1.0.0\nfallback: other", malformed},
		"anchor":                  {"version: 1.0.0", "version: &v 1.0.0", malformed},
		"section missing":         {"model:\n  revision: no-model@1.0.0\n  kind: none\n", "", malformed},
		"model null":              {"kind: none", "kind: null", malformed},
		"reachability missing":    {"reachability: none\n", "", evidence.CodeReachabilityAmbiguous},
		"reachability empty":      {"reachability: none", "reachability: \"\"", evidence.CodeReachabilityAmbiguous},
		"reachability other":      {"reachability: none", "reachability: some", evidence.CodeReachabilityAmbiguous},
		"scope missing":           {"  scope: deny_all\n", "", malformed},
		"scope null":              {"scope: deny_all", "scope: null", malformed},
		"scope empty":             {"scope: deny_all", "scope: \"\"", malformed},
		"allow empty":             {"scope: deny_all", "scope: allow\n  allow: []", malformed},
		"allow beside deny":       {"scope: deny_all", "scope: deny_all\n  allow: []", malformed},
		"scope not enforceable":   {"scope: deny_all", "scope: allow\n  allow: [read_file]", malformed},
		"shell unacknowledged":    {"scope: deny_all", "scope: unrestricted", malformed},
		"image by tag":            {"image: sha256:" + strings.Repeat("0", 64), "image: codemod:latest", malformed},
		"no paths":                {"paths: [\"**/*.go\"]", "paths: []", malformed},
		"control unknown":         {"required: [fencing, manifest]", "required: [luck]", malformed},
		"limit zero":              {"change_entries: 65536", "change_entries: 0", malformed},
		"limit missing":           {"  change_depth: 64\n", "", malformed},
		"timeout beyond the ttl":  {"timeout_seconds: 120", "timeout_seconds: 181", malformed},
		"relative program":        {"/usr/local/bin/gofumpt", "gofumpt", malformed},
		"header in the author":    {"name: Harness", "name: \"Harness\\ncommitter x\"", malformed},
		"unknown placeholder":     {"Format with gofumpt", "Format {task}", malformed},
		"publish policy root":     {"policy: harness-publish", "policy: root", malformed},
		"publish path is Vault's": {"path: secret/data/harness/publish/http", "path: sys/raw", malformed},
		"publish kind mixed":      {"kind: basic", "kind: ssh_key", malformed},
		"value field":             {"username_field: username", "value: abcdef", evidence.CodeValueInContract},
		"password in place":       {"password_field: password", "password: abcdef", evidence.CodeValueInContract},
		"token in argv":           {"-l, -w", "-l, ghp_0123456789012345678901234567890123", evidence.CodeValueInContract},
		"secret flag":             {"-l, -w", "-l, --api-key=abc", evidence.CodeValueInContract},
		"secret variable":         {"timeout_seconds: 120", "timeout_seconds: 120\n  env: {NPM_TOKEN: abc}", evidence.CodeValueInContract},
		"key in a variable":       {"timeout_seconds: 120", "timeout_seconds: 120\n  env: {A: \"-----BEGIN PRIVATE KEY-----\"}", evidence.CodeValueInContract},
		"URL with a password":     {"timeout_seconds: 120", "timeout_seconds: 120\n  env: {A: \"https://u:p4ss@host/x\"}", evidence.CodeValueInContract},
		"preload":                 {"timeout_seconds: 120", "timeout_seconds: 120\n  env: {LD_PRELOAD: /x}", malformed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := profiles.Parse([]byte(edited(t, c.old, c.replacement)))
			require.Nil(t, p)
			require.Equal(t, c.code, evidence.CodeOf(err), "%v", err)
		})
	}
}

// A31: a session must not be able to hold what publishes.
func TestASessionRouteThatReachesThePublishCredentialIsRefused(t *testing.T) {
	t.Parallel()
	route := func(path, policy, target string) string {
		return "credentials:\n  - {revision: demo@1.0.0, path: " + path + ", policy: " + policy + ", field: token, inject: {kind: " + target + "}, ttl_seconds: 60}"
	}
	for name, routes := range map[string]string{
		"policy":       route("secret/data/x", "harness-publish", "file, target: x"),
		"path":         route("secret/data/harness/publish/http", "harness-x", "file, target: x"),
		"task's file":  route("secret/data/x", "harness-x", "file, target: task"),
		"outside":      route("secret/data/x", "harness-x", "file, target: ../x"),
		"PATH":         route("secret/data/x", "harness-x", "env, target: PATH"),
		"kind missing": "credentials:\n  - {revision: demo@1.0.0, path: secret/data/x, policy: harness-x, field: token, inject: {target: x}, ttl_seconds: 60}",
	} {
		_, err := profiles.Parse([]byte(edited(t, "credentials: []", routes)))
		require.Equal(t, evidence.CodeProfileMalformed, evidence.CodeOf(err), name)
	}
	p := parsed(t, edited(t, "credentials: []", route("secret/data/x", "harness-x", "env, target: NPM_TOKEN")))
	require.Equal(t, []string{"harness-x"}, p.SessionPolicies())
	require.Equal(t, 60.0, p.SessionTTL().Seconds())
}

// A20: the digest is one of the content and not of its layout.
func TestTheDigestDoesNotDependOnLayout(t *testing.T) {
	t.Parallel()
	want, err := parsed(t, document(t)).Digest()
	require.NoError(t, err)
	require.True(t, canonical.ValidDigest(want))
	for _, text := range []string{
		edited(t, "name: gofumpt\nversion: 1.0.0", "version: \"1.0.0\"\nname: 'gofumpt'"),
		edited(t, "credentials: []\n", ""),
		edited(t, "[/usr/local/bin/gofumpt, -l, -w, .]", "\n    - /usr/local/bin/gofumpt\n    - -l\n    - -w\n    - .\n"),
	} {
		got, err := parsed(t, text).Digest()
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

// A3, CASES 37: a change of any part changes the profile's pin and that part's own, and no other.
func TestEachPartHasItsOwnPin(t *testing.T) {
	t.Parallel()
	base, err := parsed(t, document(t)).Pins()
	require.NoError(t, err)
	require.Empty(t, base.Differs(base))
	for part, text := range map[string]string{
		"rein":        edited(t, "-l, -w", "-w, -l"),
		"model":       edited(t, "no-model@1.0.0", "no-model@1.0.1"),
		"tools":       edited(t, "no-tools@1.0.0", "no-tools@1.0.1"),
		"sandbox":     edited(t, "runtime: runc", "runtime: runsc"),
		"credentials": edited(t, "policy: harness-publish", "policy: harness-other"),
	} {
		pins, err := parsed(t, text).Pins()
		require.NoError(t, err)
		require.Equal(t, "profile", base.Differs(pins))
		for name, digest := range pins.Map() {
			require.Equal(t, name != "profile" && name != part, digest == base.Map()[name], "%s after a change of %s", name, part)
		}
	}
	missing := base
	missing.Tools = ""
	require.Equal(t, "tools", missing.Differs(missing), "an empty pin differs from itself")
}

// A2, A12
func TestOnlyAnExactReferenceIsOne(t *testing.T) {
	t.Parallel()
	digest := "sha256:" + strings.Repeat("a", 64)
	ref, err := profiles.ParseRef("gofumpt@1.0.0#" + digest)
	require.NoError(t, err)
	require.Equal(t, profiles.Ref{Name: "gofumpt", Version: "1.0.0", Digest: digest}, ref)
	require.Equal(t, "gofumpt@1.0.0#"+digest, ref.String())
	for _, text := range []string{
		"", "gofumpt", "gofumpt@1.0.0", "gofumpt@latest#" + digest, "gofumpt@1#" + digest, "gofumpt@1.0#" + digest,
		"gofumpt@^1.0.0#" + digest, "gofumpt@1.0.*#" + digest, "gofumpt@>=1.0.0#" + digest, "*@1.0.0#" + digest,
		"gofumpt@01.0.0#" + digest, "gofumpt@1.0.0#sha256:abc", "gofumpt@1.0.0#" + strings.ToUpper(digest), "@1.0.0#" + digest,
		" gofumpt@1.0.0#" + digest, "gofumpt@1.0.0#" + digest + "\n", "gofumpt@1.0.0#" + digest + "#" + digest,
	} {
		_, err := profiles.ParseRef(text)
		require.Equal(t, evidence.CodeProfileMalformed, evidence.CodeOf(err), "%q", text)
	}
}

// A9, A10
func TestACatalogWithABadFileOrADoubleRevisionIsRefusedWhole(t *testing.T) {
	t.Parallel()
	good := &fstest.MapFile{Data: []byte(document(t))}
	for name, folder := range map[string]fstest.MapFS{
		"empty":  {},
		"bad":    {"a.yaml": good, "b.yaml": {Data: []byte("name: b")}},
		"double": {"a.yaml": good, "b.yaml": {Data: []byte(edited(t, "-l, -w", "-w"))}},
	} {
		list, err := profiles.Catalog(folder)
		require.Error(t, err, name)
		require.Nil(t, list)
	}
	list, err := profiles.Catalog(fstest.MapFS{
		"z.yaml": good, "a.yaml": {Data: []byte(edited(t, "version: 1.0.0", "version: 1.0.1"))}, "notes.txt": {Data: []byte("x")},
	})
	require.NoError(t, err)
	require.Equal(t, "gofumpt@1.0.0", list[0].Revision())
	require.Equal(t, "gofumpt@1.0.1", list[1].Revision())
}

// B19: whatever is accepted has one canonical form, which is accepted as the same profile.
func FuzzParse(f *testing.F) {
	f.Add([]byte(document(f)))
	f.Add([]byte("name: a\nversion: 1.0.0\n"))
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := profiles.Parse(text)
		if err != nil {
			require.Nil(t, p)
			return
		}
		content, err := p.Canonical()
		require.NoError(t, err)
		again, err := profiles.Parse(content)
		require.NoError(t, err, "JSON is YAML")
		first, err := p.Digest()
		require.NoError(t, err)
		second, err := again.Digest()
		require.NoError(t, err)
		require.Equal(t, first, second)
	})
}

func FuzzParseRef(f *testing.F) {
	f.Add("gofumpt@1.0.0#sha256:" + strings.Repeat("a", 64))
	f.Fuzz(func(t *testing.T, text string) {
		if ref, err := profiles.ParseRef(text); err == nil {
			require.Equal(t, text, ref.String())
		}
	})
}
