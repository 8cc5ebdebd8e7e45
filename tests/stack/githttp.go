package stack

import (
	"crypto/subtle"
	"io"
	"log"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
)

// Auth is the one account of a git server over http. Everything asks for it, reading as well as writing.
type Auth struct{ Username, Password string }

// maxPush bounds the body of one push.
const maxPush = 1 << 30

// GitHandler serves the bare repositories under root over smart http by the stock `git http-backend`. Tests may wrap
// it to inject faults.
func GitHandler(root string, auth Auth) http.Handler {
	git, err := exec.LookPath("git")
	if err != nil {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		})
	}
	backend := &cgi.Handler{
		Path: git,
		Args: []string{"http-backend"},
		Dir:  root,
		Env: append(gitServerEnvironment(),
			"GIT_PROJECT_ROOT="+root,
			"GIT_HTTP_EXPORT_ALL=1",
		),
		Logger: log.New(io.Discard, "", 0),
		Stderr: os.Stderr,
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		username, password, given := r.BasicAuth()
		if !given || !same(username, auth.Username) || !same(password, auth.Password) {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(w, "authentication required", http.StatusUnauthorized)
			return
		}
		// The backend has no need of the password, and a hook would inherit it.
		r.Header.Del("Authorization")
		r = spooled(w, r)
		if r == nil {
			return
		}
		defer r.Body.Close()
		backend.ServeHTTP(w, r)
	})
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// spooled gives a request of known length: CGI needs one, and git sends large packs without, in chunks or over HTTP/2.
// It answers the request itself and returns nil when that fails.
func spooled(w http.ResponseWriter, r *http.Request) *http.Request {
	if r.ContentLength >= 0 {
		return r
	}
	file, err := os.CreateTemp("", "push-*")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return nil
	}
	if err := os.Remove(file.Name()); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return nil
	}
	length, err := io.Copy(file, http.MaxBytesReader(w, r.Body, maxPush))
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		_ = file.Close()
		http.Error(w, err.Error(), http.StatusBadRequest)
		return nil
	}
	whole := r.Clone(r.Context())
	whole.Body, whole.ContentLength, whole.TransferEncoding = file, length, nil
	return whole
}

// gitServerEnvironment is what stock git gets on the server's side: no configuration but the repository's own.
func gitServerEnvironment() []string {
	return []string{
		"PATH=" + os.Getenv("PATH"),
		"HOME=" + filepath.Join(os.TempDir(), "nonexistent"),
		"GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_COUNT=1",
		"GIT_CONFIG_KEY_0=safe.directory",
		"GIT_CONFIG_VALUE_0=*",
		"LC_ALL=C.UTF-8",
		"TZ=UTC",
	}
}
