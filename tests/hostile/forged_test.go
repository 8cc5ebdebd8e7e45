package hostile_test

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/tests/stack"
)

// A34: even a session that had taken over the init, and sends a change stream of its own making, gets nothing past the worker: what
// is no stream is refused as such, and what is one is a change like any other.
func TestForgedChangeStreamIsRefused(t *testing.T) {
	t.Parallel()
	s := set(t, liar(t))
	whole := []string{same(".github/workflows/ci.yml"), same(".gitignore"), same(".harness.yaml"), same("deny/secret.txt")}
	rest := []string{
		same("src/a.txt"), same("src/crlf.txt"), same("src/folder/only.txt"), same("src/moved.txt"), same("src/tool.sh"), same("é.go"),
	}
	good := func(added ...string) []string {
		return append(append(append([]string(nil), whole...), added...), rest...)
	}
	for name, c := range map[string]struct {
		stream string
		code   evidence.Code
	}{
		"no stream":            {"hello\n", evidence.CodeStreamMalformed},
		"nothing":              {"", evidence.CodeStreamMalformed},
		"no end":               {forgery(good()...), evidence.CodeStreamMalformed},
		"data after the end":   {forgery(append(good(), end(10, 0), "x")...), evidence.CodeStreamMalformed},
		"wrong totals":         {forgery(append(good(), end(3, 0))...), evidence.CodeStreamMalformed},
		"unknown tag":          {forgery("Z"), evidence.CodeStreamMalformed},
		"unknown fault":        {forgery("!" + text("completed") + text("src")), evidence.CodeStreamMalformed},
		"out of the workspace": {forgery(file("../../etc/passwd", "x"), end(1, 1)), evidence.CodeStreamMalformed},
		"absolute":             {forgery(file("/etc/passwd", "x"), end(1, 1)), evidence.CodeStreamMalformed},
		"twice":                {forgery(file("a.go", "x"), file("a.go", "y"), end(2, 2)), evidence.CodeStreamMalformed},
		"out of order":         {forgery(file("b.go", "x"), file("a.go", "y"), end(2, 2)), evidence.CodeStreamMalformed},
		"through a link":       {forgery(link("l.go", "src"), file("l.go/x.go", "x"), end(2, 4)), evidence.CodeStreamMalformed},
		"same of nothing":      {forgery(same("nothing.go"), end(1, 0)), evidence.CodeStreamMalformed},
		"shorter than it says": {forgery("f" + text("a.go") + long(5) + text("1234") + number(0) + end(1, 4)), evidence.CodeLengthMismatch},
		"larger than allowed":  {forgery("f" + text("a.go") + long(1<<40)), evidence.CodeBytesExceeded},
		"git folder":           {forgery(append([]string{file(".git/config", "x")}, append(good(), end(11, 1))...)...), evidence.CodePathInvalid},
		"nothing is there":     {forgery(end(0, 0)), evidence.CodePathProtected},
		"outside the grant":    {forgery(append(append(whole, file("deny/x", "x")), append(rest, end(11, 1))...)...), evidence.CodePathNotGranted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run, repo := s.perform(t, act{do: []string{"write", ".forgery", quoted(c.stream)}})
			s.refused(t, run, repo, c.code)
		})
	}
	t.Run("a stream like any other", func(t *testing.T) {
		t.Parallel()
		run, repo := s.perform(t, act{do: []string{"write", ".forgery", quoted(forgery(append(good(file("src/A", "x")), end(11, 1))...))}},
			func(repo stack.RemoteRepo) { require.NotEmpty(t, repo.Baseline) })
		s.landed(t, run, repo)
		require.Equal(t, "x", repo.File(t, trunk, "src/A"))
	})
}

// liar builds the false init.
func liar(t *testing.T) string {
	t.Helper()
	dir, err := stack.Checkout()
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "liar")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, "./sandbox/internal/liar")
	build.Dir, build.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return path
}

// The change stream's bytes, written once more by hand.

func forgery(parts ...string) string { return "harness changes 1\n" + strings.Join(parts, "") }

func file(path, content string) string {
	return "f" + text(path) + long(uint64(len(content))) + text(content) + number(0)
}
func link(path, target string) string  { return "l" + text(path) + text(target) }
func same(path string) string          { return "=" + text(path) }
func end(entries, bytes uint64) string { return "E" + long(entries) + long(bytes) }
func text(s string) string             { return number(uint32(len(s))) + s }
func number(n uint32) string           { return string(binary.BigEndian.AppendUint32(nil, n)) }
func long(n uint64) string             { return string(binary.BigEndian.AppendUint64(nil, n)) }
