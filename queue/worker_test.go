package queue_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/queue"
)

// handler works on runs with functions.
type handler struct {
	execute, reconcile func(ctx context.Context, l *queue.Lease) error
}

func (h handler) Execute(ctx context.Context, l *queue.Lease) error {
	kept, stop := l.Keep(ctx)
	defer stop()
	return h.execute(kept, l)
}

func (h handler) Reconcile(ctx context.Context, l *queue.Lease) error {
	kept, stop := l.Keep(ctx)
	defer stop()
	return h.reconcile(kept, l)
}

// fault gives the failures of require to a handler as an error.
type fault struct{ text string }

func (f *fault) Errorf(format string, args ...any) { f.text += fmt.Sprintf(format, args...) }
func (f *fault) FailNow()                          { panic(f.text) }

func executes(ctx context.Context, l *queue.Lease) error {
	complete(&fault{}, ctx, l)
	return nil
}

func settles(ctx context.Context, l *queue.Lease) error {
	return l.Close(ctx, failed(evidence.EffectNotApplied, evidence.CodeWorkerLost))
}

// serve runs a worker until the test ends or stop is called.
func serve(t *testing.T, s *queue.Store, h handler, change ...func(*queue.WorkerConfig)) (stop func()) {
	t.Helper()
	config := queue.WorkerConfig{Claimant: claimant("w1"), Version: "test", Tick: 200 * time.Millisecond, Concurrency: 4}
	for _, c := range change {
		c(&config)
	}
	w, err := queue.NewWorker(s, config, h)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func await(t *testing.T, s *queue.Store, id string, states ...evidence.State) queue.Run {
	t.Helper()
	var run queue.Run
	require.Eventually(t, func() bool {
		var err error
		run, err = s.Run(context.Background(), id)
		if err != nil {
			return false
		}
		for _, state := range states {
			if run.State == state {
				return true
			}
		}
		return false
	}, 30*time.Second, 20*time.Millisecond)
	return run
}

// A1, A15, A36, A40
func TestWorkersCompleteEveryRunOnceAndNeverTwoOnOneRef(t *testing.T) {
	t.Parallel()
	url := database(t)
	var mu sync.Mutex
	busy, executions := map[string]int{}, map[string]int{}
	overlaps := 0
	h := handler{execute: func(ctx context.Context, l *queue.Lease) error {
		ref := l.Run().Repository + l.Run().TargetRef
		mu.Lock()
		busy[ref]++
		executions[l.Run().ID]++
		if busy[ref] > 1 {
			overlaps++
		}
		mu.Unlock()
		start(&fault{}, ctx, l)
		intend(&fault{}, ctx, l)
		published(&fault{}, l)
		mu.Lock()
		busy[ref]-- // before the close lets go of the ref
		mu.Unlock()
		return l.Close(ctx, completed())
	}, reconcile: settles}
	var runs []queue.Run
	emitter := open(t, url)
	for i := range 24 {
		r := request(fmt.Sprintf("load-%d", i))
		r.Repository = fmt.Sprintf("https://git.example/load/%d", i%4)
		runs = append(runs, emit(t, emitter, r))
	}
	for i := range 3 {
		serve(t, open(t, url), h, func(c *queue.WorkerConfig) { c.WorkerID = fmt.Sprintf("w%d", i) })
	}
	for _, run := range runs {
		got := await(t, emitter, run.ID, evidence.StateCompleted, evidence.StateFailed)
		require.Equal(t, evidence.StateCompleted, got.State)
	}
	mu.Lock()
	defer mu.Unlock()
	require.Zero(t, overlaps)
	require.Len(t, executions, 24)
	for id, n := range executions {
		require.Equal(t, 1, n, id)
	}
}

// A37, A44, CASES 1
func TestRunOfADeadWorkerIsSettledByAnother(t *testing.T) {
	t.Parallel()
	url := database(t)
	dead := open(t, url, short)
	run := emit(t, dead, request("dead"))
	lease := claim(t, dead, run) // and nobody keeps it
	start(t, t.Context(), lease)
	s := open(t, url)
	serve(t, s, handler{execute: executes, reconcile: settles}, func(c *queue.WorkerConfig) { c.WorkerID = "w2" })
	got := await(t, s, run.ID, evidence.StateFailed)
	require.Equal(t, evidence.CodeWorkerLost, got.Code)
	require.Equal(t, evidence.EffectNotApplied, got.Effect)
	require.EqualValues(t, 2, got.Epoch)
	require.ErrorIs(t, lease.Close(t.Context(), failed(evidence.EffectNotDispatched, evidence.CodeSessionFailed)), queue.ErrLeaseLost)
}

// A44: while something is away without which no run can be settled, the attempts are a lease's life apart.
func TestASettlingThatFailsIsTriedAgainOnceItsLeaseHasExpired(t *testing.T) {
	t.Parallel()
	s := newStore(t, short)
	run := emit(t, s, request("away"))
	require.NoError(t, s.Cancel(t.Context(), run.ID, "ada", "enough"))
	began := time.Now()
	var attempts atomic.Int32
	serve(t, s, handler{execute: executes, reconcile: func(ctx context.Context, l *queue.Lease) error {
		if attempts.Add(1) < 4 {
			return http.ErrServerClosed
		}
		return l.Close(ctx, cancelled(evidence.EffectNotDispatched))
	}})
	await(t, s, run.ID, evidence.StateCancelled)
	require.Greater(t, time.Since(began), 2*time.Second, "three leases of a second that nobody kept")
}

// CASES 10
func TestDrainingWorkerClaimsNothingAndKeepsItsLeases(t *testing.T) {
	t.Parallel()
	s := newStore(t, func(c *queue.Config) {
		c.TTL, c.Beat, c.Margin = 3*time.Second, 300*time.Millisecond, 300*time.Millisecond
	})
	begun, finish := make(chan string, 2), make(chan struct{})
	stop := serve(t, s, handler{execute: func(ctx context.Context, l *queue.Lease) error {
		begun <- l.Run().ID
		<-finish
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return executes(ctx, l)
	}, reconcile: settles})
	run := emit(t, s, request("drain"))
	require.Equal(t, run.ID, <-begun)
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	time.Sleep(300 * time.Millisecond)
	late := emit(t, s, request("too-late"))
	time.Sleep(4 * time.Second) // more than a TTL
	close(finish)
	<-stopped
	require.Equal(t, evidence.StateCompleted, await(t, s, run.ID, evidence.StateCompleted, evidence.StateFailed).State)
	require.Equal(t, evidence.StateCreated, await(t, s, late.ID, evidence.StateCreated).State)
	processes, err := s.Processes(t.Context())
	require.NoError(t, err)
	require.Len(t, processes, 1)
	require.False(t, processes[0].Alive)
	require.NotNil(t, processes[0].StoppedAt)
}

func TestWorkersContextsEndWhenTheDrainsTimeIsOver(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	begun := make(chan struct{})
	stop := serve(t, s, handler{execute: func(ctx context.Context, l *queue.Lease) error {
		close(begun)
		<-ctx.Done()
		return ctx.Err()
	}, reconcile: settles}, func(c *queue.WorkerConfig) { c.Drain = 500 * time.Millisecond })
	run := emit(t, s, request("hurry"))
	<-begun
	stop()
	got, err := s.Run(t.Context(), run.ID)
	require.NoError(t, err)
	require.Equal(t, evidence.StateCreated, got.State, "what was not started is given back")
	claim(t, s, got)
}

// A13
func TestAttendedProcessServesItsOwnQueueAlone(t *testing.T) {
	t.Parallel()
	url := database(t)
	s := open(t, url)
	var foreign atomic.Int32
	other := handler{execute: func(ctx context.Context, l *queue.Lease) error {
		foreign.Add(1)
		return executes(ctx, l)
	}, reconcile: settles}
	serve(t, open(t, url), other, func(c *queue.WorkerConfig) { c.WorkerID = "w2" })
	serve(t, s, handler{execute: executes}, func(c *queue.WorkerConfig) { c.Queue = "attended-1" })
	r := request("attended")
	r.Attended, r.Operator = true, "ada"
	run, _, err := s.Emit(t.Context(), r, queue.Emission{Pin: pins(r), Queue: "attended-1"})
	require.NoError(t, err)
	require.Equal(t, "w1", await(t, s, run.ID, evidence.StateCompleted).WorkerID)
	require.Zero(t, foreign.Load())
}

func TestWorkerWithoutRoomLeavesTheRunToAnother(t *testing.T) {
	t.Parallel()
	url := database(t)
	full := open(t, url, short)
	h := handler{execute: executes, reconcile: settles}
	serve(t, full, h, func(c *queue.WorkerConfig) { c.Admit = func() (bool, string) { return false, "memory" } })
	run := emit(t, full, request("room"))
	time.Sleep(time.Second)
	require.Equal(t, evidence.StateCreated, await(t, full, run.ID, evidence.StateCreated).State)
	serve(t, open(t, url, short), h, func(c *queue.WorkerConfig) { c.WorkerID = "w2" })
	require.Equal(t, "w2", await(t, full, run.ID, evidence.StateCompleted).WorkerID)
}

func TestCancelReachesTheWorkerAndIsSettledByIt(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	begun := make(chan struct{})
	serve(t, s, handler{execute: func(ctx context.Context, l *queue.Lease) error {
		start(&fault{}, ctx, l)
		close(begun)
		<-ctx.Done()
		return context.Cause(ctx)
	}, reconcile: func(ctx context.Context, l *queue.Lease) error {
		return l.Close(ctx, cancelled(evidence.EffectNotApplied))
	}})
	run := emit(t, s, request("cancel"))
	<-begun
	require.NoError(t, s.Cancel(t.Context(), run.ID, "ada", "enough"))
	require.Equal(t, evidence.EffectNotApplied, await(t, s, run.ID, evidence.StateCancelled).Effect)
}

// A48
func TestWorkerDeliversAndDoesItsChores(t *testing.T) {
	t.Parallel()
	to := newReceiver(t, http.StatusServiceUnavailable)
	s := newStore(t, func(c *queue.Config) {
		c.Endpoints = []queue.Endpoint{endpoint(t, "ops", to.URL, true)}
		c.Logger = slog.New(slog.DiscardHandler)
	})
	var done atomic.Int32
	serve(t, s, handler{execute: executes, reconcile: settles}, func(c *queue.WorkerConfig) {
		c.Chores = []queue.Chore{{Name: "sweep", Every: time.Hour, Do: func(context.Context) error {
			done.Add(1)
			return context.DeadlineExceeded
		}}}
	})
	run := emit(t, s, request("told"))
	await(t, s, run.ID, evidence.StateCompleted)
	require.Eventually(t, func() bool { return to.count() == 1 }, 10*time.Second, 20*time.Millisecond)
	to.answer(http.StatusOK)
	require.Eventually(t, func() bool {
		due(t, s)
		list := deliveries(t, s, run.ID)
		return len(list) == 1 && list[0].State == "delivered"
	}, 10*time.Second, 200*time.Millisecond)
	require.Eventually(t, func() bool {
		list, err := s.FailedChores(context.Background())
		return err == nil && len(list) == 1
	}, 10*time.Second, 50*time.Millisecond)
	require.EqualValues(t, 1, done.Load(), "one turn an hour")
}

// CASES 2
func TestCompletionOfAStaleWorkersJobTouchesNoRun(t *testing.T) {
	t.Parallel()
	s := newStore(t, short)
	run := emit(t, s, request("overtaken"))
	begun, go1 := make(chan struct{}), make(chan struct{})
	stop := serve(t, s, handler{execute: func(ctx context.Context, l *queue.Lease) error {
		if l.Epoch() == 1 {
			close(begun)
			<-go1 // stopped, as by SIGSTOP: River will be told of its end long after
			return nil
		}
		return executes(ctx, l)
	}, reconcile: settles})
	<-begun
	sql(t, s, `UPDATE ops_run SET lease_epoch = lease_epoch + 1, lease_expires_at = NULL, state = 'created'`)
	done := await(t, s, run.ID, evidence.StateCompleted)
	close(go1)
	stop()
	after, err := s.Run(t.Context(), run.ID)
	require.NoError(t, err)
	require.Equal(t, done, after)
}
