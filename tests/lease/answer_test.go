package lease_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/tests/deployment"
	"github.com/rein-aharness/harness/tests/stack"
)

// A41, B29: a push that arrives twice is answered with a refusal, though its commit is on the branch. The remote's refs say so.
func TestARefusalOfWhatHasLandedAlreadyIsSettledByTheRemote(t *testing.T) {
	t.Parallel()
	s := set(t, change())
	answers := make(chan string, 1)
	url := s.road(t, func(git http.Handler, w http.ResponseWriter, req *http.Request, body []byte) {
		first := httptest.NewRecorder()
		git.ServeHTTP(first, req.Clone(req.Context()))
		req.Body = io.NopCloser(bytes.NewReader(body))
		second := httptest.NewRecorder()
		git.ServeHTTP(second, req)
		answers <- second.Body.String()
		w.Header().Set("Content-Type", second.Header().Get("Content-Type"))
		w.WriteHeader(second.Code)
		_, _ = w.Write(second.Body.Bytes())
	})
	s.repo.HTTPURL = url + "/" + s.repo.Name
	run := s.emit(t, "sent twice")
	s.Worker(t, "only", deployment.WorkerSettings{})
	run = s.final(t, run.ID, within)

	require.Contains(t, <-answers, "ng "+main)
	require.Equal(t, evidence.EffectConfirmed, run.Effect, "a refusal decides nothing until the remote was looked at")
	s.settled(t, run, evidence.StateCompleted, evidence.EffectConfirmed)
	require.Len(t, s.asked(t, main), 2)
}

// road is a way to the git server on which push answers what would move the branch. It gives the road's address.
func (s *scene) road(t *testing.T, push func(git http.Handler, w http.ResponseWriter, req *http.Request, body []byte)) string {
	t.Helper()
	git := stack.GitHandler(s.Stack.Git.Root, stack.Auth{
		Username: s.Stack.Git.Username, Password: s.Stack.Secret(t, s.Stack.Git.PasswordFile),
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		req.Body = io.NopCloser(bytes.NewReader(body))
		if !bytes.Contains(body, []byte(" "+main)) || !strings.HasSuffix(req.URL.Path, "/git-receive-pack") {
			git.ServeHTTP(w, req)
			return
		}
		push(git, w, req, body)
	}))
	t.Cleanup(server.Close)
	return server.URL
}
