package lease_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/tests/deployment"
)

// A25, A38, A40: a worker that is stopped in the session for longer than its lease finds it lost when it goes on, and asks nothing of
// the remote.
func TestAWorkerStoppedInTheSessionPublishesNothingLater(t *testing.T) {
	t.Parallel()
	s := set(t, slowly(4*time.Second))
	run := s.emit(t, "stopped in the session")
	worker := s.Worker(t, "first", deployment.WorkerSettings{})
	s.inSession(t, run.ID)

	worker.Signal(t, syscall.SIGSTOP)
	s.Worker(t, "second", deployment.WorkerSettings{})
	run = s.final(t, run.ID, within)
	worker.Signal(t, syscall.SIGCONT)
	eventually(t, within, func() bool { return strings.Contains(worker.Output(), string(evidence.CodeLeaseLost)) })

	s.settled(t, run, evidence.StateFailed, evidence.EffectNotApplied)
	require.Empty(t, s.asked(t, main))
	worker.Signal(t, syscall.SIGTERM)
	require.Zero(t, worker.Ended(t, within))
	require.Empty(t, s.asked(t, main))
	require.Equal(t, run, s.run(t, run.ID), "whoever lost the lease changes nothing")
}

// A37, A38, A40, CASES 13: a worker that is stopped between its last look at the lease and the send, for longer than the lease,
// lands nothing when it goes on.
func TestAWorkerStoppedBeforeTheSendLandsNothingLater(t *testing.T) {
	t.Parallel()
	s := set(t, change())
	run := s.emit(t, "stopped before the send")
	worker := s.Worker(t, "first", deployment.WorkerSettings{Failpoints: "accept.before_send=stop"})
	eventually(t, within, func() bool { return worker.Stopped(t) })

	s.Worker(t, "second", deployment.WorkerSettings{})
	run = s.final(t, run.ID, within)
	worker.Signal(t, syscall.SIGCONT)
	eventually(t, within, func() bool { return strings.Contains(worker.Output(), string(evidence.CodeLeaseLost)) })

	s.settled(t, run, evidence.StateFailed, evidence.EffectNotApplied)
	require.Equal(t, run, s.run(t, run.ID))
}

// A37, A40, A41, CASES 13: a push that was sent under the lease and arrives after another epoch has settled the run is refused by
// the remote.
func TestAPushThatArrivesAfterTheTakeoverIsRefusedByTheRemote(t *testing.T) {
	t.Parallel()
	s := set(t, change())
	road := s.slowRoad(t)
	s.repo.HTTPURL = road.url + "/" + s.repo.Name
	run := s.emit(t, "late push")
	worker := s.Worker(t, "first", deployment.WorkerSettings{})
	select {
	case <-road.held:
	case <-time.After(within):
		require.FailNow(t, "nothing was pushed")
	}
	worker.Signal(t, syscall.SIGSTOP)
	s.Worker(t, "second", deployment.WorkerSettings{})
	run = s.final(t, run.ID, within)
	require.Empty(t, s.asked(t, main))

	answer := road.deliver(t)
	worker.Signal(t, syscall.SIGCONT)
	require.Len(t, s.asked(t, main), 1, "it did arrive")
	require.Contains(t, answer, "ng "+main)
	s.settled(t, run, evidence.StateFailed, evidence.EffectNotApplied)
	require.Equal(t, run, s.run(t, run.ID))
}

// slowRoad is a way to the git server on which the push of the branch is held until it is delivered.
type slowRoad struct {
	url     string
	held    chan struct{}
	proceed chan struct{}
	answer  chan string
}

func (s *scene) slowRoad(t *testing.T) *slowRoad {
	t.Helper()
	r := &slowRoad{held: make(chan struct{}), proceed: make(chan struct{}), answer: make(chan string, 1)}
	var once sync.Once
	r.url = s.road(t, func(git http.Handler, _ http.ResponseWriter, req *http.Request, _ []byte) {
		once.Do(func() { close(r.held) })
		<-r.proceed
		answer := httptest.NewRecorder()
		git.ServeHTTP(answer, req.WithContext(t.Context()))
		r.answer <- answer.Body.String()
	})
	return r
}

// deliver lets the held push go on and gives the remote's answer to it.
func (r *slowRoad) deliver(t *testing.T) string {
	t.Helper()
	close(r.proceed)
	select {
	case answer := <-r.answer:
		return answer
	case <-time.After(within):
		require.FailNow(t, "the push was not answered")
		return ""
	}
}
