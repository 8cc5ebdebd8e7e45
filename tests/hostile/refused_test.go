package hostile_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/sandbox"
	"github.com/rein-aharness/harness/tests/stack"
)

// A24, A28, A34, A35, CASES 17, 18, 19, 22, 23, 25, 27, 31, 32, 34: what a hostile session leaves is refused with the code of its
// rule, and the remote has nothing of it.
func TestHostileOutputIsRefusedByItsRule(t *testing.T) {
	t.Parallel()
	s := set(t, "")
	both := []string{sandbox.RuntimeRunc, sandbox.RuntimeRunsc}
	for _, c := range []struct {
		name     string
		code     evidence.Code
		runtimes []string // default runc
		act      act
	}{
		{name: "git hook", code: evidence.CodePathInvalid, runtimes: both, act: act{do: write(".git/hooks/pre-commit")}},
		{name: "git filter below", code: evidence.CodePathInvalid, act: act{do: write("src/.git/config")}},
		{name: "git file", code: evidence.CodePathInvalid, act: act{do: write("src/folder/.git")}},
		{name: "git in capitals", code: evidence.CodePathInvalid, act: act{do: write("src/.GIT/config")}},
		{name: "git by its short name", code: evidence.CodePathInvalid, act: act{do: write("src/GIT~1/config")}},
		{name: "git with an ignored code point", code: evidence.CodePathInvalid, act: act{do: write("src/.g\u200cit/config")}},
		{name: "git with a stream", code: evidence.CodePathInvalid, act: act{do: write("src/.git::$INDEX_ALLOCATION/x")}},
		{name: "git by backslash", code: evidence.CodePathInvalid, act: act{do: write(`src/x\.git\config`)}},
		{name: "newline in a name", code: evidence.CodePathInvalid, runtimes: both, act: act{do: write("src/a\nb")}},
		{name: "escape sequence in a name", code: evidence.CodePathInvalid, act: act{do: write("src/\x1b[2Jb")}},
		{name: "bytes that are no text", code: evidence.CodePathInvalid, runtimes: both, act: act{do: write("src/\xff")}},
		{name: "direction override in a name", code: evidence.CodePathInvalid, act: act{do: write("src/a\u202ecod.exe")}},
		{name: "case collision", code: evidence.CodePathCollision, act: act{do: write("src/A.txt")}},
		{name: "composition collision", code: evidence.CodePathCollision, act: act{do: write("e\u0301.go")}},
		{name: "collision of two new folders", code: evidence.CodePathCollision, act: act{do: then(write("src/n/x"), write("src/N/y"))}},

		{name: "manifest changed", code: evidence.CodePathProtected, act: act{do: write(".harness.yaml")}},
		{name: "manifest removed", code: evidence.CodePathProtected, act: act{do: []string{"remove", ".harness.yaml"}}},
		{name: "new workflow", code: evidence.CodePathProtected, act: act{do: write(".github/workflows/new.go")}},
		{name: "workflow moved away", code: evidence.CodePathProtected, act: act{do: []string{"rename", ".github/workflows/ci.yml", "src/ci.yml"}}},
		{name: "submodules", code: evidence.CodePathProtected, act: act{do: write(".gitmodules")}},
		{name: "attributes below", code: evidence.CodePathProtected, act: act{do: write("src/.gitattributes")}},
		{name: "owners below", code: evidence.CodePathProtected, act: act{do: write("src/CODEOWNERS")}},

		{name: "outside the grant", code: evidence.CodePathNotGranted, act: act{do: write("README")}},
		{name: "renamed out of a denied folder", code: evidence.CodePathNotGranted, act: act{do: []string{"rename", "deny/secret.txt", "src/b.txt"}}},
		{name: "mode outside the grant", code: evidence.CodePathNotGranted, act: act{do: []string{"chmod", "755", "deny/secret.txt"}}},
		{name: "removed outside the grant", code: evidence.CodePathNotGranted, act: act{do: []string{"remove", "deny"}}},
		{name: "rules that hide a change", code: evidence.CodePathNotGranted, act: act{do: then([]string{"write", ".gitignore", "*"}, write("src/x"))}},

		{name: "link to a file of the system", code: evidence.CodeSymlinkRefused, runtimes: both, act: act{do: []string{"symlink", "/etc/passwd", "src/l"}}},
		{name: "link that leaves", code: evidence.CodeSymlinkRefused, act: act{do: []string{"symlink", "../../x", "src/l"}}},
		{name: "link that leaves by two", code: evidence.CodeSymlinkRefused, act: act{do: then(
			[]string{"symlink", "folder/..", "src/up"}, []string{"symlink", "up/../../x", "src/l"})}},
		{name: "file turned into a link", code: evidence.CodeSymlinkRefused, act: act{do: then(
			[]string{"remove", "src/a.txt"}, []string{"symlink", "/proc/1/environ", "src/a.txt"})}},
		{name: "folder turned into a link", code: evidence.CodeSymlinkRefused, act: act{do: then(
			[]string{"remove", "src/folder"}, []string{"symlink", "/run/harness", "src/folder"})}},

		{name: "pipe", code: evidence.CodeFileTypeRefused, runtimes: both, act: act{do: []string{"fifo", "src/p"}}},
		{name: "pipe in place of a file", code: evidence.CodeFileTypeRefused, act: act{do: then([]string{"remove", "src/a.txt"}, []string{"fifo", "src/a.txt"})}},
		{name: "socket", code: evidence.CodeFileTypeRefused, act: act{do: []string{"socket", "src/s"}}},
		{name: "unreadable file", code: evidence.CodeFileUnreadable, runtimes: both, act: act{do: []string{"chmod", "000", "src/a.txt"}}},
		{name: "unreadable folder", code: evidence.CodeFileUnreadable, act: act{do: []string{"chmod", "000", "src/folder"}}},
		{name: "sparse file", code: evidence.CodeBytesExceeded, runtimes: both, act: act{do: []string{"truncate", "src/big", "16777216"}}},
		{name: "too much in all", code: evidence.CodeBytesExceeded, act: act{do: then(
			[]string{"fill", "src/1", "1000000"}, []string{"fill", "src/2", "1000000"}, []string{"fill", "src/3", "1000000"})}},
		{name: "too many files", code: evidence.CodeEntriesExceeded, act: act{do: []string{"many", "src/many", "500"}}},
		{name: "too many folders", code: evidence.CodeEntriesExceeded, act: act{do: []string{"inodes", "src", "500"}}},
		{name: "too deep", code: evidence.CodeDepthExceeded, act: act{do: []string{"deep", "src", "40"}}},
		{name: "name beyond the bound", code: evidence.CodeDepthExceeded, act: act{do: []string{"deep", "src", "2000"}}},

		{name: "credential in a file", code: evidence.CodeCredentialInChange, runtimes: both, act: act{secret: true, do: []string{"copy", secretFile, "src/x"}}},
		{name: "credential in base64", code: evidence.CodeCredentialInChange, act: act{secret: true, do: []string{"encode", secretFile, "base64", "src/x"}}},
		{name: "credential in hex", code: evidence.CodeCredentialInChange, act: act{secret: true, do: []string{"encode", secretFile, "hex", "src/x"}}},
		{name: "credential in URL form", code: evidence.CodeCredentialInChange, act: act{secret: true, do: []string{"encode", secretFile, "url", "src/x"}}},
		{name: "credential outside the grant", code: evidence.CodeCredentialInChange, act: act{secret: true, do: []string{"copy", secretFile, "README"}}},
		{name: "credential as a link", code: evidence.CodeCredentialInChange, act: act{secret: true, do: []string{"point", secretFile, "src/l"}}},

		{name: "failed after its change", code: evidence.CodeSessionFailed, act: act{do: then(write("src/x"), []string{"exit", "3"})}},
		{name: "killed itself", code: evidence.CodeSessionFailed, act: act{do: then(write("src/x"), []string{"die", "9"})}},
		{name: "does not end", code: evidence.CodeSessionTimeout, runtimes: both, act: act{seconds: 2, do: then(write("src/x"), []string{"stay"})}},
		{name: "no space", code: evidence.CodeSessionFailed, act: act{do: []string{"fill", "src/x", "100000000"}}},
		{name: "no inodes", code: evidence.CodeSessionFailed, act: act{do: []string{"inodes", "src", "10000"}}},
		{name: "too much memory", code: evidence.CodeMemoryExceeded, act: act{do: []string{"memory", "2000000000"}}},
		{name: "a line of a gibibyte", code: evidence.CodeOutputExceeded, runtimes: both, act: act{do: []string{"line", "1073741824"}}},
		{name: "no end of lines", code: evidence.CodeOutputExceeded, act: act{do: []string{"flood", "50s"}}},
	} {
		if c.runtimes == nil {
			c.runtimes = both[:1]
		}
		for _, runtime := range c.runtimes {
			t.Run(fmt.Sprint(c.name, " ", runtime), func(t *testing.T) {
				t.Parallel()
				a := c.act
				a.runtime = runtime
				run, repo := s.perform(t, a)
				s.refused(t, run, repo, c.code)
			})
		}
	}
	t.Run("in place of a submodule", func(t *testing.T) {
		t.Parallel()
		run, repo := s.perform(t, act{do: write("src/module/x")}, func(repo stack.RemoteRepo) {
			repo.Git(t, "update-ref", "-d", trunk)
			repo.Import(t, fmt.Sprintf("commit %s\ncommitter S <s@example.com> 1700000000 +0000\ndata 5\nBegin\nfrom %s\nM 160000 %s src/module\n",
				trunk, repo.Baseline, repo.Baseline))
		})
		require.Equal(t, evidence.CodeGitlinkRefused, run.Code, "%s at %s", run.State, run.FailedStage)
		require.Equal(t, evidence.EffectNotApplied, run.Effect)
		require.Equal(t, "2", string(repo.Git(t, "rev-list", "--count", trunk)[0]))
	})
}
