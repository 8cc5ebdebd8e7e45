package queue_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/queue"
)

// A16, CASES 7, 11
func TestKeptLeaseOutlivesItsTTLAndAFailedHeartbeat(t *testing.T) {
	t.Parallel()
	wire, url := throughRelay(t, database(t))
	s := open(t, url, func(c *queue.Config) {
		c.TTL, c.Beat, c.Margin = 4*time.Second, 300*time.Millisecond, 500*time.Millisecond
	})
	lease := claim(t, s, emit(t, s, request("kept")))
	kept, stop := lease.Keep(t.Context())
	defer stop()
	time.Sleep(2 * time.Second)
	wire.set(true)
	time.Sleep(700 * time.Millisecond) // two or three heartbeats fail
	wire.set(false)
	time.Sleep(4 * time.Second)
	require.NoError(t, context.Cause(kept))
	require.NoError(t, lease.Check(t.Context()))
	require.True(t, lease.Held())
}

// A37, A38, CASES 8
func TestUnreachableDatabaseEndsTheWorkBeforeTheLeaseExpires(t *testing.T) {
	t.Parallel()
	url := database(t)
	direct := open(t, url)
	wire, far := throughRelay(t, url)
	s := open(t, far, func(c *queue.Config) { c.TTL, c.Beat, c.Margin = 3*time.Second, 300*time.Millisecond, time.Second })
	run := emit(t, direct, request("cut"))
	lease := claim(t, s, run)
	kept, stop := lease.Keep(t.Context())
	defer stop()
	wire.set(true)
	select {
	case <-kept.Done():
	case <-time.After(3 * time.Second): // a TTL
	}
	const stops = "the holder stops while the database still thinks that it holds"
	require.ErrorIs(t, context.Cause(kept), queue.ErrLeaseLost, stops)
	require.False(t, scalar[bool](t, direct, `SELECT lease_expires_at <= clock_timestamp() FROM ops_run`), stops)
	wire.set(false)
	require.ErrorIs(t, lease.Check(t.Context()), queue.ErrLeaseLost, "and does not come back by itself")
}

// A37, CASES 8
func TestWriteIsRepeatedWhileTheDatabaseIsAwayForAMoment(t *testing.T) {
	t.Parallel()
	wire, url := throughRelay(t, database(t))
	s := open(t, url, func(c *queue.Config) { c.TTL, c.Beat, c.Margin = 10*time.Second, time.Second, time.Second })
	run := emit(t, s, request("blip"))
	lease := claim(t, s, run)
	start(t, t.Context(), lease)
	wire.set(true)
	back := time.AfterFunc(time.Second, func() { wire.set(false) })
	defer back.Stop()
	require.NoError(t, lease.Close(t.Context(), failed(evidence.EffectNotDispatched, evidence.CodeSessionFailed)))
	run, err := s.Run(t.Context(), run.ID)
	require.NoError(t, err)
	require.Equal(t, evidence.StateFailed, run.State)
}

// A30, A37, CASES 8: what a run needs for a good end is not lost with one connection.
func TestWhatEndsARunIsAskedForAgainWhileTheDatabaseIsAwayForAMoment(t *testing.T) {
	t.Parallel()
	wire, url := throughRelay(t, database(t))
	s := open(t, url, func(c *queue.Config) { c.TTL, c.Beat, c.Margin = 10*time.Second, time.Second, time.Second })
	run := emit(t, s, request("blip"))
	lease := claim(t, s, run)
	for name, ask := range map[string]func(context.Context) error{
		"run":     func(ctx context.Context) error { _, err := s.Run(ctx, run.ID); return err },
		"intent":  func(ctx context.Context) error { _, _, err := s.Intent(ctx, run.ID); return err },
		"fences":  func(ctx context.Context) error { _, err := s.FenceValues(ctx, run.ID); return err },
		"tokens":  func(ctx context.Context) error { _, err := s.LiveTokens(ctx, run.ID); return err },
		"revoked": func(ctx context.Context) error { return lease.TokenRevoked(ctx, "accessor") },
	} {
		wire.set(true)
		back := time.AfterFunc(300*time.Millisecond, func() { wire.set(false) })
		require.NoError(t, ask(t.Context()), name)
		back.Stop()
	}
	wire.set(true)
	began := time.Now()
	require.Error(t, lease.TokenRevoked(t.Context(), "accessor"), "but not for ever")
	require.Less(t, time.Since(began), 30*time.Second)
	wire.set(false)
}

// A37, A38
func TestRejectedHeartbeatIsFinal(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	lease := claim(t, s, emit(t, s, request("rejected")))
	kept, stop := lease.Keep(t.Context())
	defer stop()
	sql(t, s, `UPDATE ops_run SET lease_epoch = lease_epoch + 1`)
	<-kept.Done()
	require.ErrorIs(t, context.Cause(kept), queue.ErrLeaseLost)
	require.NotErrorIs(t, context.Cause(kept), queue.ErrCancelRequested)
	require.False(t, lease.Held())
}

// CASES 10
func TestHeartbeatsGoOnAfterTheCallerWasAskedToEnd(t *testing.T) {
	t.Parallel()
	s := newStore(t, func(c *queue.Config) {
		c.TTL, c.Beat, c.Margin = 2*time.Second, 200*time.Millisecond, 300*time.Millisecond
	})
	lease := claim(t, s, emit(t, s, request("draining")))
	ctx, cancel := context.WithCancel(t.Context())
	kept, stop := lease.Keep(ctx)
	defer stop()
	cancel()
	<-kept.Done()
	require.NotErrorIs(t, context.Cause(kept), queue.ErrLeaseLost)
	time.Sleep(3 * time.Second)
	require.NoError(t, lease.Check(t.Context()))
}

// A16
func TestLeaseThatNobodyKeepsExpires(t *testing.T) {
	t.Parallel()
	s := newStore(t, short)
	run := emit(t, s, request("unkept"))
	lease := claim(t, s, run)
	time.Sleep(1100 * time.Millisecond)
	require.False(t, lease.Held())
	require.ErrorIs(t, lease.Start(t.Context()), queue.ErrLeaseLost)
	claim(t, s, run)
}

// A51, B25
func TestPausedHarnessStopsClaimsAndPublicationsOnly(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	run := emit(t, s, request("paused"))
	lease := claim(t, s, run)
	start(t, t.Context(), lease)
	require.NoError(t, s.Pause(t.Context(), "ada", "incident"))
	waiting := emit(t, s, request("waiting"))
	_, err := s.Claim(t.Context(), waiting.ID, claimant("w2"))
	require.ErrorIs(t, err, queue.ErrPaused)
	require.ErrorIs(t, lease.Check(t.Context()), queue.ErrPaused)
	require.ErrorIs(t, lease.SaveIntent(t.Context(), intentOf(run)), queue.ErrPaused)
	control, err := s.Control(t.Context())
	require.NoError(t, err)
	require.Equal(t, "ada", control.PausedBy)
	require.NoError(t, lease.Stage(t.Context(), evidence.StageSession), "work goes on")
	expire(t, s)
	taken, err := s.TakeOver(t.Context(), run.ID, claimant("w2"), false)
	require.NoError(t, err, "so does settling")
	require.NoError(t, taken.Close(t.Context(), failed(evidence.EffectNotApplied, evidence.CodeWorkerLost)))
	require.NoError(t, s.Resume(t.Context()))
	claim(t, s, waiting)
}

// A40, A44, A46
func TestIntentIsSavedOnceAndOnlyByAHolderThatStarted(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	run := emit(t, s, request("intent"))
	lease := claim(t, s, run)
	require.ErrorIs(t, lease.SaveIntent(t.Context(), intentOf(run)), queue.ErrNotClaimable, "before the start")
	start(t, t.Context(), lease)
	intent := intend(t, t.Context(), lease)
	require.NoError(t, lease.SaveIntent(t.Context(), intent), "the same again, after an answer that was lost")
	other := intent
	other.Commit = commitOf("e")
	require.ErrorIs(t, lease.SaveIntent(t.Context(), other), queue.ErrIntentConflict)
	other = intent
	other.Pack = []byte("another")
	require.ErrorIs(t, lease.SaveIntent(t.Context(), other), queue.ErrIntentConflict)
	other.Pack = nil
	require.Equal(t, evidence.CodePackTooLarge, evidence.CodeOf(lease.SaveIntent(t.Context(), other)))

	saved, found, err := s.Intent(t.Context(), run.ID)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, intent.Pack, saved.Pack)
	require.EqualValues(t, 1, saved.Epoch)
	_, found, err = s.Intent(t.Context(), "00000000-none")
	require.NoError(t, err)
	require.False(t, found)
}

// A44
func TestReconcilerFindsTheFactsThatWereStoredWithTheIntent(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	run := emit(t, s, request("resumed"))
	lease := claim(t, s, run)
	start(t, t.Context(), lease)
	intend(t, t.Context(), lease)
	published(t, lease) // recorded and never stored: the worker dies here
	expire(t, s)
	taken, err := s.TakeOver(t.Context(), run.ID, claimant("w2"), false)
	require.NoError(t, err)
	_, found, err := evidence.Last[evidence.Intended](taken.Facts())
	require.NoError(t, err)
	require.True(t, found)
	require.NoError(t, taken.Record(evidence.StageReconcile, evidence.SourceObserved, evidence.Settled{
		By: "reconciler", Transaction: "tx-" + run.ID, Effect: evidence.EffectConfirmed, Fence: commitOf("c"), Branch: commitOf("c"),
	}))
	require.NoError(t, taken.Close(t.Context(), completed()))
	facts, err := s.Facts(t.Context(), run.ID)
	require.NoError(t, err)
	require.NoError(t, evidence.VerifyChain(run.ID, facts))
	claimed, _, err := evidence.Last[evidence.Claimed](facts)
	require.NoError(t, err)
	require.Equal(t, "w2/n1", claimed.Owner)
}

// A42, A48
func TestCloseWritesAllOrNothing(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	run := emit(t, s, request("atomic"))
	lease := claim(t, s, run)
	start(t, t.Context(), lease)
	before, err := s.Run(t.Context(), run.ID)
	require.NoError(t, err)
	broken := errors.New("no signing key")
	for name, c := range map[string]queue.Closing{
		"no signature": {
			State: evidence.StateFailed, Effect: evidence.EffectNotDispatched, Stage: evidence.StageSession,
			Code: evidence.CodeSessionFailed, Disposition: evidence.OutcomeFailed,
			Sign: func([]evidence.Fact) ([]byte, error) { return nil, broken },
		},
		"an effect that nothing shows":  completed(),
		"an effect that is not settled": failed(evidence.EffectUnknown, evidence.CodeSettleUnknown),
		"a failure without a code":      failed(evidence.EffectNotDispatched, ""),
	} {
		require.Error(t, lease.Close(t.Context(), c), name)
		after, err := s.Run(t.Context(), run.ID)
		require.NoError(t, err)
		require.Equal(t, before, after, name)
	}
	c := failed(evidence.EffectNotDispatched, evidence.CodeSessionFailed)
	c.Subject = "a\x1b[31m\npath"
	require.NoError(t, lease.Close(t.Context(), c), "a refused close leaves the run open")
	require.NoError(t, lease.Close(t.Context(), c), "the same close after a lost answer")
	require.ErrorIs(t, lease.Close(t.Context(), failed(evidence.EffectNotDispatched, evidence.CodeMemoryExceeded)), queue.ErrLeaseLost)
	run, err = s.Run(t.Context(), run.ID)
	require.NoError(t, err)
	result, err := queue.DecodeResult(run.Result)
	require.NoError(t, err)
	require.Equal(t, evidence.CodeSessionFailed, result.Code)
	require.NotContains(t, result.Subject, "\x1b")
	require.NotContains(t, result.Subject, "\n")
	_, err = queue.DecodeResult([]byte(`{"version":1,"prompt":"x"}`))
	require.Error(t, err)
}

// A25
func TestTeardownSeenLateIsAddedToAClosedRun(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	run := emit(t, s, request("torndown"))
	lease := claim(t, s, run)
	start(t, t.Context(), lease)
	gone := evidence.TornDown{ContainerGone: true, VolumesGone: true}
	require.ErrorIs(t, s.SupplyTornDown(t.Context(), run.ID, gone), queue.ErrNotClaimable)
	require.NoError(t, lease.Close(t.Context(), failed(evidence.EffectNotDispatched, evidence.CodeSessionFailed)))
	require.NoError(t, s.SupplyTornDown(t.Context(), run.ID, gone))
	facts, err := s.Facts(t.Context(), run.ID)
	require.NoError(t, err)
	require.Equal(t, evidence.KindTornDown, facts[len(facts)-1].Kind)
	require.NoError(t, evidence.VerifyChain(run.ID, facts))
}

func TestSessionLogIsReadFromWhereOneStopped(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	run := emit(t, s, request("log"))
	lease := claim(t, s, run)
	require.NoError(t, lease.AppendLog(t.Context(), []byte("one\n")))
	require.NoError(t, lease.AppendLog(t.Context(), make([]byte, 1<<20+1)))
	chunks, err := s.SessionLog(t.Context(), run.ID, 0, 0)
	require.NoError(t, err)
	require.Len(t, chunks, 3)
	require.Equal(t, "one\n", string(chunks[0].Bytes))
	chunks, err = s.SessionLog(t.Context(), run.ID, 1, 2)
	require.NoError(t, err)
	require.Len(t, chunks, 1)
	gone, err := s.PruneLogs(t.Context(), time.Hour)
	require.NoError(t, err)
	require.Zero(t, gone)
	sql(t, s, `UPDATE session_log SET written_at = now() - interval '2 hours'`)
	gone, err = s.PruneLogs(t.Context(), time.Hour)
	require.NoError(t, err)
	require.EqualValues(t, 3, gone)
}
