package stack

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// RemoteRepo is a bare repository on the git servers.
type RemoteRepo struct {
	Name string // its path below the servers' addresses, "<name>.git"
	// HTTPURL, HTTPSURL and SSHURL are its addresses, without credentials.
	HTTPURL, HTTPSURL, SSHURL string
	Dir                       string // on disk; hooks go into Dir/hooks
	Baseline                  string // the commit main was made with
}

// Repository makes a repository of one commit on main that holds the files (path → content). It is removed when the
// test ends.
func (s *Stack) Repository(t testing.TB, name string, files map[string]string) RemoteRepo {
	t.Helper()
	full := name + "-" + strings.ToLower(rand.Text()[:8]) + ".git"
	repo := RemoteRepo{
		Name:     full,
		HTTPURL:  s.Git.HTTP + "/" + full,
		HTTPSURL: s.Git.HTTPS + "/" + full,
		SSHURL:   s.Git.SSH + "/" + full,
		Dir:      filepath.Join(s.Git.Root, full),
	}
	if err := CreateRepository(t.Context(), repo.Dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(repo.Dir); err != nil {
			t.Errorf("remove repository: %v", err)
		}
	})
	repo.Baseline = repo.Commit(t, "refs/heads/main", "Begin", files)
	return repo
}

// CreateRepository makes an empty bare repository the way a git host has it: any object that a client names may be
// fetched, and pushes over http are allowed.
func CreateRepository(ctx context.Context, dir string) error {
	for _, arguments := range [][]string{
		{"init", "--quiet", "--bare", "--initial-branch=main", dir},
		{"-C", dir, "config", "http.receivepack", "true"},
		{"-C", dir, "config", "uploadpack.allowAnySHA1InWant", "true"},
		{"-C", dir, "config", "uploadpack.allowReachableSHA1InWant", "true"},
		{"-C", dir, "config", "uploadpack.allowFilter", "true"},
		{"-C", dir, "config", "gc.auto", "0"},
	} {
		if _, err := Git(ctx, "", nil, arguments...); err != nil {
			return err
		}
	}
	return nil
}

// Commit puts one more commit on a ref, which it makes when it is not there, and returns the hash. The files (path →
// content) are added to those of the ref, or replace them. The commit is the same for the same arguments and parent.
func (r RemoteRepo) Commit(t testing.TB, ref, message string, files map[string]string) string {
	t.Helper()
	var stream bytes.Buffer
	fmt.Fprintf(&stream, "commit %s\ncommitter Somebody <somebody@example.com> 1700000000 +0000\ndata %d\n%s\n", ref, len(message), message)
	if r.Ref(t, ref) != "" {
		fmt.Fprintf(&stream, "from %s^0\n", ref)
	}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(&stream, "M 100644 inline %s\ndata %d\n%s\n", quotePath(path), len(files[path]), files[path])
	}
	r.Import(t, stream.String())
	return r.Ref(t, ref)
}

// Import feeds a `git fast-import` stream to the repository, for what Commit cannot say: modes, links, merges.
func (r RemoteRepo) Import(t testing.TB, stream string) {
	t.Helper()
	if _, err := Git(t.Context(), r.Dir, []byte(stream), "fast-import", "--quiet", "--force"); err != nil {
		t.Fatal(err)
	}
}

// Ref is the hash a ref has now, or "" when there is no such ref.
func (r RemoteRepo) Ref(t testing.TB, ref string) string {
	t.Helper()
	return strings.TrimSpace(r.Git(t, "for-each-ref", "--format=%(objectname)", ref))
}

// Refs are all refs of the repository with their hashes.
func (r RemoteRepo) Refs(t testing.TB) map[string]string {
	t.Helper()
	refs := map[string]string{}
	for line := range strings.Lines(r.Git(t, "for-each-ref", "--format=%(refname) %(objectname)")) {
		name, hash, _ := strings.Cut(strings.TrimSpace(line), " ")
		refs[name] = hash
	}
	return refs
}

// Log are the commits of a ref, newest first.
func (r RemoteRepo) Log(t testing.TB, ref string) []string {
	t.Helper()
	return strings.Fields(r.Git(t, "log", "--format=%H", ref, "--"))
}

// Files are the files of a commit or ref: path → mode and blob, as in "100644 <hash>".
func (r RemoteRepo) Files(t testing.TB, commit string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for entry := range strings.SplitSeq(strings.TrimSuffix(r.Git(t, "ls-tree", "-r", "-z", commit), "\x00"), "\x00") {
		fields, path, found := strings.Cut(entry, "\t")
		if parts := strings.Fields(fields); found && len(parts) == 3 {
			files[path] = parts[0] + " " + parts[2]
		}
	}
	return files
}

// File is the content of a file in a commit or ref, byte for byte.
func (r RemoteRepo) File(t testing.TB, commit, path string) string {
	t.Helper()
	return r.Git(t, "cat-file", "blob", commit+":"+path)
}

// Git runs stock git in the repository and returns its output. A git that fails ends the test.
func (r RemoteRepo) Git(t testing.TB, arguments ...string) string {
	t.Helper()
	output, err := Git(t.Context(), r.Dir, nil, arguments...)
	if err != nil {
		t.Fatal(err)
	}
	return string(output)
}

// Git runs stock git with no configuration but the repository's own. The error has what git said.
func Git(ctx context.Context, dir string, input []byte, arguments ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "git", arguments...)
	cmd.Dir = dir
	cmd.Env = gitServerEnvironment()
	cmd.Stdin = bytes.NewReader(input)
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	output, err := cmd.Output()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("git %s: %w", arguments[0], err), errors.New(strings.TrimSpace(complaint.String())))
	}
	return output, nil
}

// quotePath is a path as fast-import wants it when it may hold anything: in C quotes.
func quotePath(path string) string {
	var quoted strings.Builder
	quoted.WriteByte('"')
	for i := range len(path) {
		switch c := path[i]; {
		case c == '"' || c == '\\':
			quoted.WriteString(`\` + string(c))
		case c < 0x20 || c >= 0x7f:
			fmt.Fprintf(&quoted, `\%03o`, c)
		default:
			quoted.WriteByte(c)
		}
	}
	quoted.WriteByte('"')
	return quoted.String()
}
