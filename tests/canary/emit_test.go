package canary_test

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A27, A28, A29: a definition, trigger key or profile that carries a secret is refused, whatever field it is in and however it is
// malformed, and neither the refusal nor any table shows it. What stands in the place of a name, and has no form of a secret, is
// named like any other unknown name.
func TestADocumentThatCarriesASecretIsRefusedUnshown(t *testing.T) {
	t.Parallel()
	s := set(t)
	known := canary{"token of a known form", "ghp_" + rand.Text() + rand.Text()}
	block := canary{"private key", "-----BEGIN PRIVATE KEY-----\n" + rand.Text() + rand.Text() + "\n" + rand.Text() + "\n-----END PRIVATE KEY-----"}
	plain := canary{"password", rand.Text()}
	ref := s.profile(t, "emit", one("sleep", "0s")...)
	good := fmt.Sprintf("version: 1\nname: canary\nrepository: %s\nbase_ref: refs/heads/main\ntarget_ref: refs/heads/main\ntask: Do it.\n"+
		"profile: %s\ngrant: {paths: [\"**\"], symlinks: true, protected: []}\n", s.repo.HTTPURL, ref)
	replace := func(old, new string) string {
		require.Contains(t, good, old)
		return strings.Replace(good, old, new, 1)
	}
	catalog, err := os.ReadFile(filepath.Join("..", "..", "configs", "catalog", "gofumpt.yaml"))
	require.NoError(t, err)
	emit := func(document string) []string {
		return []string{"emit", "--trigger-key", "key", "-f", s.document(t, document)}
	}
	publish := func(old, new string) []string {
		require.Contains(t, string(catalog), old)
		return []string{"profiles", "publish", s.document(t, strings.Replace(string(catalog), old, new, 1)), "--operator", "ada"}
	}
	output := searchFor(known, block, plain)
	for name, arguments := range map[string][]string{
		"a field of its own":       emit(good + "token: " + plain.value + "\n"),
		"in the task":              emit(replace("Do it.", "Use "+known.value)),
		"a key in the task":        emit(replace("Do it.", `"`+strings.ReplaceAll(block.value, "\n", `\n`)+`"`)),
		"in the repository":        emit(replace("://", "://user:"+plain.value+"@")),
		"in a path":                emit(replace(`"**"`, `"`+known.value+`/**"`)),
		"in the name":              emit(replace("name: canary", "name: "+known.value)),
		"in the target":            emit(replace("target_ref: refs/heads/main", "target_ref: refs/heads/"+known.value)),
		"in a reference":           emit(good + "refs: {ticket: " + known.value + "}\n"),
		"as the version":           emit(replace("version: 1", "version: "+plain.value)),
		"as the profile":           emit(replace(ref.String(), known.value)),
		"as the grant":             emit(replace(`{paths: ["**"], symlinks: true, protected: []}`, plain.value)),
		"as a truth":               emit(replace("symlinks: true", "symlinks: "+plain.value)),
		"twice":                    emit(good + "task: " + plain.value + "\n"),
		"before a bad line":        emit(good + "refs: {ticket: \"" + plain.value + "\n\tx: [\n"),
		"behind an anchor":         emit(replace("Do it.", "&"+plain.value+" x")),
		"in no document":           emit(plain.value),
		"in a profile's field":     publish("credentials: []", "credentials: [{revision: a@1.0.0, value: "+plain.value+"}]"),
		"in a profile's argument":  publish("-l, -w, .", "-l, "+known.value),
		"in a profile's variable":  publish("timeout_seconds: 120", "timeout_seconds: 120\n  env: {API_TOKEN: "+plain.value+"}"),
		"in a profile's message":   publish(`"Format with gofumpt"`, known.value),
		"as a profile's limit":     publish("pids: 128", "pids: "+plain.value),
		"as a profile's publisher": publish("password_field: password", "password: "+plain.value),
	} {
		said, code := s.command(t, append(arguments, "--log-level", "debug")...)
		require.NotZero(t, code, "%s: %s", name, said)
		require.NotEmpty(t, said, name)
		output.look("refusal: "+name, []byte(said))
	}
	// The key is an argument: it is its operator who shows it, but it would have become part of the run.
	said, code := s.command(t, "emit", "--trigger-key", known.value, "-f", s.document(t, good))
	require.NotZero(t, code, said)
	output.look("refusal: in the trigger key", []byte(said))

	url, err := s.Config.Database.URL()
	require.NoError(t, err)
	output.tables(t, url)
	output.nothing(t, "table profile_revision")
	listed, code := s.command(t, "runs", "list", "--json")
	require.Zero(t, code)
	require.JSONEq(t, `[]`, listed, "nothing was emitted")
}

func (s *scene) document(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "document.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}
