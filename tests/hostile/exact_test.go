package hostile_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/sandbox"
)

// A34, CASES 25, 26, 27, 28, 34: what looks odd and is legitimate lands byte for byte, as stock git reads it.
func TestOddAndLegitimateOutputLandsByteForByte(t *testing.T) {
	t.Parallel()
	s := set(t, "")
	for _, runtime := range []string{sandbox.RuntimeRunc, sandbox.RuntimeRunsc} {
		t.Run(runtime, func(t *testing.T) {
			t.Parallel()
			run, repo := s.perform(t, act{runtime: runtime, do: then(
				[]string{"replace", "src/crlf.txt", "two", "2"},
				[]string{"chmod", "755", "src/tool.sh"},
				[]string{"rename", "src/moved.txt", "src/with space and 'quotes\".txt"},
				[]string{"write", "src/empty", ""},
				[]string{"write", quoted("src/日本語.txt"), quoted("ö\x00\xff no newline")},
				[]string{"write", "src/-n", "an option?"},
				[]string{"link", "src/a.txt", "src/hard.txt"},
				[]string{"symlink", "a.txt", "src/soft"},
				[]string{"remove", "src/folder"}, []string{"write", "src/folder", "a file now"},
				[]string{"write", "ignored.tmp", "dropped"},
			)})
			s.landed(t, run, repo)
			files := repo.Files(t, trunk)
			for path, want := range map[string]struct{ mode, content string }{
				"src/crlf.txt":                     {"100644", "one\r\n2\r\n"},
				"src/tool.sh":                      {"100755", "#!/bin/sh\n"},
				"src/with space and 'quotes\".txt": {"100644", "moved\n"},
				"src/empty":                        {"100644", ""},
				"src/日本語.txt":                      {"100644", "ö\x00\xff no newline"},
				"src/-n":                           {"100644", "an option?"},
				"src/a.txt":                        {"100644", "as it is\n"},
				"src/hard.txt":                     {"100644", "as it is\n"},
				"src/soft":                         {"120000", "a.txt"},
				"src/folder":                       {"100644", "a file now"},
				".harness.yaml":                    {"100644", manifest},
				"é.go":                             {"100644", "package e\n"},
				".gitignore":                       {"100644", "*.tmp\n"},
				"deny/secret.txt":                  {"100644", "not granted\n"},
				".github/workflows/ci.yml":         {"100644", "on: push\n"},
			} {
				require.Contains(t, files, path)
				require.Equal(t, want.mode, files[path][:6], path)
				require.Equal(t, want.content, repo.File(t, trunk, path), path)
				delete(files, path)
			}
			require.Empty(t, files, "nothing else is there")
		})
	}
}

// A24, A34, CASES 18: processes that a session leaves behind, and all that it prints, are no part of the change.
func TestWhatASessionLeavesRunningOrPrintsChangesNothing(t *testing.T) {
	t.Parallel()
	s := set(t, "")
	stream := forgery(file("src/forged", "from stdout"), end(1, 11))
	for _, runtime := range []string{sandbox.RuntimeRunc, sandbox.RuntimeRunsc} {
		t.Run("writer in the background "+runtime, func(t *testing.T) {
			t.Parallel()
			run, repo := s.perform(t, act{runtime: runtime, do: then(
				[]string{"background", "churn", "src", "5m"}, []string{"await", "src/churned"})})
			s.landed(t, run, repo)
			require.Contains(t, repo.Files(t, trunk), "src/churned")
		})
		t.Run("fork bomb "+runtime, func(t *testing.T) {
			t.Parallel()
			run, repo := s.perform(t, act{runtime: runtime, do: []string{"forkbomb", "1s"}})
			s.unchanged(t, run, repo)
		})
		t.Run("forged stream on its outputs "+runtime, func(t *testing.T) {
			t.Parallel()
			run, repo := s.perform(t, act{runtime: runtime, do: then(
				[]string{"print", quoted(stream)}, []string{"stderr", quoted(stream)}, []string{"spray", quoted(stream)},
				[]string{"spray", quoted("O\x00\x00\x00\x05forge")}, []string{"spray", quoted(`R` + "\x00\x00\x00\x02{}")},
			)})
			s.unchanged(t, run, repo)
		})
		t.Run("the init as a program "+runtime, func(t *testing.T) {
			t.Parallel()
			// What the session may not do to the init it may not do by writing to its binary either.
			run, repo := s.perform(t, act{runtime: runtime, do: then(
				[]string{"not", "openwrite", "/.harness/harness"}, []string{"not", "remove", "/.harness/harness"}, []string{"not", "openfd", "1", "1"})})
			s.unchanged(t, run, repo)
		})
	}
	// A name is at most 255 bytes, which the credential fits in, but no slash.
	t.Run("credential as a name", func(t *testing.T) {
		t.Parallel()
		run, repo := s.perform(t, act{secret: true, do: then(
			[]string{"encode", secretFile, "hex", "/tmp/hex"}, []string{"name", "/tmp/hex", "src"})})
		s.refused(t, run, repo, evidence.CodeCredentialInChange)
	})
}
