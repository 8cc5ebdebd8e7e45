package faults_test

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rein-aharness/harness/tests/faults"
)

// gitServer serves git, and does to the next push of the branch what it was told to.
type gitServer struct {
	git  http.Handler
	next atomic.Pointer[http.HandlerFunc]
}

func (g *gitServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasSuffix(r.URL.Path, "/git-receive-pack") || r.Method != http.MethodPost {
		g.git.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if bytes.Contains(body, []byte(" "+main)) {
		if do := g.next.Swap(nil); do != nil {
			(*do)(w, r)
			return
		}
	}
	g.git.ServeHTTP(w, r)
}

// answerNothing has the next push not applied, and answered by success and nothing.
func (g *gitServer) answerNothing() {
	g.then(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-git-receive-pack-result")
		w.WriteHeader(http.StatusOK)
	})
}

// loseAnswer has the next push applied, and its connection ended without an answer.
func (g *gitServer) loseAnswer() {
	g.then(func(w http.ResponseWriter, r *http.Request) {
		g.git.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	})
}

// answerLate has the next push applied at once, and answered only when a lease would be over that nobody keeps.
func (g *gitServer) answerLate() {
	g.then(func(w http.ResponseWriter, r *http.Request) {
		answer := httptest.NewRecorder()
		g.git.ServeHTTP(answer, r)
		time.Sleep(faults.Long)
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes()) // to whoever still listens
	})
}

func (g *gitServer) then(do http.HandlerFunc) { g.next.Store(&do) }
