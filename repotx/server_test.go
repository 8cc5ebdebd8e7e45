package repotx

import (
	"bytes"
	"context"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	testUser     = "worker"
	testPassword = "correct-horse"
)

// server is a git server over smart http: stock git behind its own CGI program, with basic authentication.
type server struct {
	t    testing.TB
	root string
	http *httptest.Server
	// wrap, when set, stands between the client and git.
	wrap atomic.Pointer[func(http.Handler) http.Handler]
}

func newServer(t testing.TB) *server {
	t.Helper()
	s := &server{t: t, root: t.TempDir()}
	core := strings.TrimSpace(s.git("", "--exec-path"))
	backend := &cgi.Handler{
		Path: filepath.Join(core, "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + s.root, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=" + testUser},
		// What git says on its error stream about a refused push is not the test's output.
		Stderr: &bytes.Buffer{},
	}
	s.http = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, ok := r.BasicAuth(); !ok || user != testUser || password != testPassword {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		var h http.Handler = backend
		if wrap := s.wrap.Load(); wrap != nil {
			h = (*wrap)(h)
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(s.http.Close)
	return s
}

func (s *server) intercept(wrap func(http.Handler) http.Handler) { s.wrap.Store(&wrap) }
func (s *server) pass()                                          { s.wrap.Store(nil) }

// git runs stock git in a folder and returns what it prints.
func (s *server) git(dir string, args ...string) string {
	s.t.Helper()
	out, err := s.tryGit(dir, args...)
	require.NoError(s.t, err, "git %v: %s", args, out)
	return out
}

func (s *server) tryGit(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + s.root, "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C",
		"GIT_AUTHOR_NAME=Someone", "GIT_AUTHOR_EMAIL=someone@example.org", "GIT_AUTHOR_DATE=1700000000 +0000",
		"GIT_COMMITTER_NAME=Someone", "GIT_COMMITTER_EMAIL=someone@example.org", "GIT_COMMITTER_DATE=1700000000 +0000",
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err != nil {
		return stdout.String() + stderr.String(), err
	}
	return stdout.String(), nil
}

// remoteRepo is a bare repository on the server with a clone of it to make commits in.
type remoteRepo struct {
	*server
	name, dir, work string
	head            string
}

// repository makes a repository whose branch main has one commit with the files. A value that starts with "->" makes a link,
// one that starts with "#!" an executable.
func (s *server) repository(name string, files map[string]string) *remoteRepo {
	s.t.Helper()
	r := &remoteRepo{server: s, name: name, dir: filepath.Join(s.root, name+".git"), work: s.t.TempDir()}
	s.git("", "init", "-q", "--bare", "-b", "main", r.dir)
	s.git(r.dir, "config", "http.receivepack", "true")
	s.git(r.dir, "config", "receive.fsckObjects", "true")
	s.git(r.dir, "config", "gc.auto", "0")
	s.git(r.dir, "config", "uploadpack.allowFilter", "true")
	s.git("", "init", "-q", "-b", "main", r.work)
	s.git(r.work, "config", "gc.auto", "0") // it would go on in the background after the test
	if len(files) > 0 {
		r.head = r.commit("main", files)
	}
	return r
}

// write puts files into the clone.
func (r *remoteRepo) write(files map[string]string) {
	r.t.Helper()
	for path, content := range files {
		full := filepath.Join(r.work, path)
		require.NoError(r.t, os.MkdirAll(filepath.Dir(full), 0o755))
		require.NoError(r.t, os.RemoveAll(full))
		if target, ok := strings.CutPrefix(content, "->"); ok {
			require.NoError(r.t, os.Symlink(target, full))
			continue
		}
		mode := os.FileMode(0o644)
		if strings.HasPrefix(content, "#!") {
			mode = 0o755
		}
		require.NoError(r.t, os.WriteFile(full, []byte(content), mode))
	}
}

// commit writes the files on top of what the clone has and pushes to the branch, as a third party.
func (r *remoteRepo) commit(branch string, files map[string]string) string {
	r.t.Helper()
	r.write(files)
	r.git(r.work, "add", "-A", "-f")
	r.git(r.work, "commit", "-q", "--allow-empty", "-m", "a commit")
	r.git(r.work, "push", "-q", r.dir, "+HEAD:refs/heads/"+branch)
	return strings.TrimSpace(r.git(r.work, "rev-parse", "HEAD"))
}

func (r *remoteRepo) url() string { return r.server.http.URL + "/" + r.name + ".git" }

// ref gives the value of a ref on the server, "" when absent.
func (r *remoteRepo) ref(name string) string {
	out, err := r.tryGit(r.dir, "rev-parse", "--verify", "-q", name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(out)
}

func newStore(t testing.TB) *Store {
	t.Helper()
	store, err := Open(context.Background(), Config{CacheDir: t.TempDir(), Timeout: 20 * time.Second})
	require.NoError(t, err)
	return store
}

func (r *remoteRepo) remote(store *Store) *Remote {
	r.t.Helper()
	repo, err := Canonical(r.url())
	require.NoError(r.t, err)
	auth, err := NewBasicAuth(testUser, testPassword)
	require.NoError(r.t, err)
	return store.Remote(repo, auth)
}
