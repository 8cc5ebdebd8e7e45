package repotx

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// gitIgnores asks stock git which of the paths the .gitignore files of a folder ignore.
func gitIgnores(t require.TestingT, dir string, paths []string) map[string]bool {
	cmd := exec.Command("git", "check-ignore", "--no-index", "-z", "--stdin")
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1"}
	cmd.Stdin = strings.NewReader(strings.Join(paths, "\x00") + "\x00")
	out, err := cmd.Output()
	if exit, ok := err.(*exec.ExitError); ok && exit.ExitCode() == 1 {
		err = nil // none is ignored
	}
	require.NoError(t, err)
	ignored := map[string]bool{}
	for _, p := range strings.Split(string(out), "\x00") {
		ignored[p] = true
	}
	return ignored
}

func rulesOf(t require.TestingT, files map[string]string) *ignoreRules {
	rules := &ignoreRules{byDir: map[string][]ignoreRule{}, dirs: map[string]bool{}}
	for dir, content := range files {
		parsed, err := parseIgnore([]byte(content))
		require.NoError(t, err)
		rules.byDir[dir] = parsed
	}
	return rules
}

func writeIgnores(t require.TestingT, root string, files map[string]string) {
	for dir, content := range files {
		require.NoError(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, dir, ".gitignore"), []byte(content), 0o644))
	}
}

// Every pattern gives git's own verdict.
func TestIgnoreAgreesWithGit(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	require.NoError(t, exec.Command("git", "init", "-q", root).Run())
	paths := []string{
		"a", "b", "a/b", "a/b/c", "a/x/b", "a/x/y/b", "b/a", "foo.o", "foo.c", "x/foo.o", "build/x", "src/build/x", "src/build/keep/x", "a b", "a ",
		"[a]", "#a", "!a", "ab", "a-b", "a]", "A", "ü", "\xff", "a\\b", "doc/x.txt", "doc/y/x.txt", "x/doc/x.txt", ".x", ".x/y", "a.b.c", "aXXb", "a/",
	}
	for _, content := range []string{
		"a", "/a", "a/", "a/b", "/a/b", "a/*", "a/**", "**/b", "a/**/b", "**", "*", "*.o\n!foo.o", "build/\n!build/keep", "/build", "src/**/x",
		"a\\ ", "a ", "\\#a", "#a", "\\!a", "!a\na", "[a]", "\\[a]", "[a-c]", "[!a]", "[^a]", "[]a]", "[a", "a[", "[[:alpha:]]", "[[:nope:]]", "[[:alpha:]",
		"a\\", "?", "a?b", "a*b", "a**b", "a/**b", "*/b", "*/*/b", "/*\n!/a", "doc/*.txt", "doc/**/*.txt", "**/doc", ".*", "a\r\nb\r\n",
		"\xef\xbb\xbfa", "", "/", "//", "!", "\\", "a/**/", "**/", "[a\\]]", "[\\a-c]", "[a-\\c]", "[--a]", "[a-]", "[!]a]", "ü", "[ü]", "\xff", "?*", "a/.",
		"***", "a/***/b", "**/**/b", "[.-0]b", "a[/]b", "*a*b*", "\\a\\b", "a\\/b", "**\\/b", "[[:digit:]-z]", "[[:upper:][:lower:]]x", " a", "\ta", "a\t",
	} {
		writeIgnores(t, root, map[string]string{"": content})
		want := gitIgnores(t, root, paths)
		rules := rulesOf(t, map[string]string{"": content})
		for _, p := range paths {
			if strings.HasSuffix(p, "/") {
				continue
			}
			require.Equal(t, want[p], rules.match(p), "pattern %q, path %q", content, p)
		}
	}
}

func TestIgnorePropertyAgainstGit(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	require.NoError(t, exec.Command("git", "init", "-q", root).Run())
	piece := rapid.SampledFrom([]string{"a", "b", "ab", "c", "*", "**", "?", "/", "/", "/", "[ab]", "[!a]", "!", "\\", ".", " ", "a*", "*b", "[", "]", "-"})
	pattern := rapid.Map(rapid.SliceOfN(piece, 1, 6), func(p []string) string { return strings.Join(p, "") })
	file := rapid.Map(rapid.SliceOfN(pattern, 1, 5), func(p []string) string { return strings.Join(p, "\n") + "\n" })
	segment := rapid.SampledFrom([]string{"a", "b", "ab", "c", "ba", "a.b", "aab", " ", "]"})
	path := rapid.Map(rapid.SliceOfN(segment, 1, 4), func(p []string) string { return strings.Join(p, "/") })
	rapid.Check(t, func(t *rapid.T) {
		files := map[string]string{"": file.Draw(t, "root"), "a": file.Draw(t, "a"), "a/b": file.Draw(t, "a/b"), "b": file.Draw(t, "b")}
		writeIgnores(t, root, files)
		paths := rapid.SliceOfN(path, 1, 20).Draw(t, "paths")
		var asked []string
		for _, p := range paths {
			if info, err := os.Stat(filepath.Join(root, p)); err != nil || !info.IsDir() { // only files are asked about
				asked = append(asked, p)
			}
		}
		if len(asked) == 0 {
			return
		}
		want := gitIgnores(t, root, asked)
		rules := rulesOf(t, files)
		for _, p := range asked {
			require.Equal(t, want[p], rules.match(p), "files %q, path %q", files, p)
		}
	})
}

func FuzzGlobExpression(f *testing.F) {
	for _, seed := range []string{"a/**/b", "[[:alpha:]-z]", "\\", "[!]]", "**", "*?[a-\\", "\xff[\x80-\xff]"} {
		f.Add(seed, "a/x/b")
	}
	f.Fuzz(func(t *testing.T, pattern, path string) {
		if len(pattern) > 1000 {
			return
		}
		rules, err := parseIgnore([]byte(pattern))
		if err != nil {
			return
		}
		r := &ignoreRules{byDir: map[string][]ignoreRule{"": rules}, dirs: map[string]bool{}}
		r.match(path)
	})
}

// The baseline's rules drop untracked files alone, and what a session writes into .gitignore counts for nothing.
func TestOnlyTheBaselinesRulesDropOnlyUntrackedFiles(t *testing.T) {
	t.Parallel()
	repo := newServer(t).repository("project", map[string]string{".gitignore": "*.log\nbuild/\n", "tracked.log": "1\n", "a.txt": "a\n", "sub/.gitignore": "!keep.log\n"})
	b := baselineOf(t, repo)
	cs := collect(t, b, map[string]*string{
		"tracked.log": text("2\n"), "new.log": text("x"), "build/out": text("x"), "sub/keep.log": text("x"), "sub/other.log": text("x"),
		".gitignore": text("*\n"), "seen.txt": text("x"),
	})
	var paths []string
	for _, c := range cs.Changes {
		paths = append(paths, c.Path)
	}
	require.Equal(t, []string{".gitignore", "seen.txt", "sub/keep.log", "tracked.log"}, paths)
	require.Equal(t, 3, cs.Ignored)
}
