package lease_test

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/queue"
	"github.com/rein-aharness/harness/tests/deployment"
)

// A44, CASES 8: a database that is away from right after the publication until the lease is over costs the lease and nothing else:
// the same transaction is found on the remote and confirmed, and no second commit is made.
func TestADatabaseAwayAfterThePublicationLeadsToNoSecondCommit(t *testing.T) {
	t.Parallel()
	s := set(t, change())
	line := newLine(t, s)
	run := s.emit(t, "database away")
	worker := s.Worker(t, "first", deployment.WorkerSettings{Failpoints: "accept.after_send=sleep:2s", DatabaseURL: line.url})
	eventually(t, within, func() bool { return s.repo.Ref(t, main) != s.repo.Baseline })
	line.cut()
	intent, found, err := s.h.Store().Intent(t.Context(), run.ID)
	require.NoError(t, err)
	require.True(t, found)
	s.until(t, run.ID, within, func(r queue.Run) bool { return r.ExpiresAt != nil && r.ExpiresAt.Before(time.Now().Add(-time.Second)) })
	require.Equal(t, evidence.StateRunning, s.run(t, run.ID).State)
	line.mend()

	run = s.final(t, run.ID, within)
	s.settled(t, run, evidence.StateCompleted, evidence.EffectConfirmed)
	require.Equal(t, int64(2), run.Epoch)
	require.Equal(t, "first", run.WorkerID, "%s", worker.Output())
	require.Equal(t, intent.Commit, s.repo.Ref(t, main))
	facts, err := s.h.Store().Facts(t.Context(), run.ID)
	require.NoError(t, err)
	settled, _, err := evidence.Last[evidence.Settled](facts)
	require.NoError(t, err)
	require.Equal(t, intent.TransactionID, settled.Transaction)
	require.Equal(t, "reconciler", settled.By)
}

// line is a way to the database that can be cut.
type line struct {
	url    string
	server string

	mu    sync.Mutex
	away  bool
	conns map[net.Conn]bool
}

func newLine(t *testing.T, s *scene) *line {
	t.Helper()
	direct, err := s.Config.Database.URL()
	require.NoError(t, err)
	address, err := url.Parse(direct)
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l := &line{server: address.Host, conns: map[net.Conn]bool{}}
	address.Host = listener.Addr().String()
	l.url = address.String()
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return // the test is over
			}
			go l.join(c)
		}
	}()
	t.Cleanup(func() {
		require.NoError(t, listener.Close())
		l.cut()
	})
	return l
}

// join carries one connection in both directions until either end, or the line, ends it.
func (l *line) join(near net.Conn) {
	far, err := net.Dial("tcp", l.server)
	if err != nil {
		_ = near.Close()
		return
	}
	if !l.keep(near, far) {
		return
	}
	go func() { _, _ = io.Copy(far, near); l.drop(near, far) }()
	_, _ = io.Copy(near, far)
	l.drop(near, far)
}

func (l *line) keep(conns ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range conns {
		if l.away {
			_ = c.Close()
			continue
		}
		l.conns[c] = true
	}
	return !l.away
}

func (l *line) drop(conns ...net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
		delete(l.conns, c)
	}
}

// cut ends all connections and lets none through until mend.
func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.away = true
	for c := range l.conns {
		_ = c.Close()
	}
}

func (l *line) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.away = false
}
