package queue_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/queue"
)

// expire lets the lease of every run have ended a moment ago.
func expire(t *testing.T, s *queue.Store) {
	t.Helper()
	sql(t, s, `UPDATE ops_run SET lease_expires_at = clock_timestamp() - interval '1 millisecond' WHERE lease_expires_at IS NOT NULL`)
}

// A17
func TestFiftyClaimersGetOneLease(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	run := emit(t, s, request("fifty"))
	var mu sync.Mutex
	var leases []*queue.Lease
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			lease, err := s.Claim(t.Context(), run.ID, claimant(fmt.Sprintf("w%d", i)))
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				leases = append(leases, lease)
			} else if !errors.Is(err, queue.ErrNotClaimable) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.Len(t, leases, 1)
	require.EqualValues(t, 1, leases[0].Epoch())
}

// A17
func TestEpochRisesWithEveryClaim(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	run := emit(t, s, request("epochs"))
	require.NoError(t, claim(t, s, run).Release(t.Context()))
	second := claim(t, s, run)
	require.EqualValues(t, 2, second.Epoch())
	expire(t, s)
	third := claim(t, s, run)
	require.EqualValues(t, 3, third.Epoch())
	require.ErrorIs(t, second.Stage(t.Context(), evidence.StageResolve), queue.ErrLeaseLost)
	require.NoError(t, third.Stage(t.Context(), evidence.StageResolve))
}

// A16, A37, CASES 2: whoever has the lease by now, also the same process in a later epoch.
func TestForeignAndStaleWritesChangeNothing(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for _, next := range []string{"w1", "w2"} {
		run := emit(t, s, request("stale-"+next))
		stale := claim(t, s, run)
		expire(t, s)
		lease, err := s.Claim(t.Context(), run.ID, claimant(next))
		require.NoError(t, err)
		start(t, t.Context(), lease)
		before, err := s.Run(t.Context(), run.ID)
		require.NoError(t, err)
		for name, write := range map[string]func() error{
			"start":   func() error { return stale.Start(t.Context()) },
			"stage":   func() error { return stale.Stage(t.Context(), evidence.StageSession) },
			"check":   func() error { return stale.Check(t.Context()) },
			"fence":   func() error { return stale.RecordFence(t.Context(), "refs/harness/fence/x", commitOf("f")) },
			"intent":  func() error { return stale.SaveIntent(t.Context(), intentOf(run)) },
			"log":     func() error { return stale.AppendLog(t.Context(), []byte("x")) },
			"release": func() error { return stale.Release(t.Context()) },
			"defer":   func() error { return stale.Defer(t.Context(), queue.Deferral{Effect: evidence.EffectUnknown}) },
			"close": func() error {
				return stale.Close(t.Context(), failed(evidence.EffectNotDispatched, evidence.CodeSessionFailed))
			},
		} {
			require.ErrorIs(t, write(), queue.ErrLeaseLost, "%s of a lease that was taken over changes nothing", name)
		}
		after, err := s.Run(t.Context(), run.ID)
		require.NoError(t, err)
		require.Equal(t, before, after)
		require.NoError(t, lease.Check(t.Context()))
	}
}

// A16, A37: a write that comes while another process takes the run over waits until that is decided.
func TestAWriteThatMeetsATakeoverIsRefused(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	run := emit(t, s, request("met"))
	stale := claim(t, s, run)
	takeover, err := s.Pool().Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = takeover.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = takeover.Exec(t.Context(), `UPDATE ops_run SET lease_epoch = lease_epoch + 1, lease_owner = 'w2/n1' WHERE id = $1`, run.ID)
	require.NoError(t, err)
	wrote := make(chan error, 1)
	go func() { wrote <- stale.Stage(t.Context(), evidence.StageSession) }()
	require.Eventually(t, func() bool {
		var waits bool
		err := s.Pool().QueryRow(t.Context(), `
			SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')`).Scan(&waits)
		return err == nil && waits
	}, 3*time.Second, 10*time.Millisecond)
	require.NoError(t, takeover.Commit(t.Context()))
	require.ErrorIs(t, <-wrote, queue.ErrLeaseLost, "a write that met a takeover has seen it")
	after, err := s.Run(t.Context(), run.ID)
	require.NoError(t, err)
	require.Equal(t, evidence.StageClaim, after.Stage)
}

// A16, CASES 9
func TestRestartedWorkerOwnsNothingOfItsPredecessor(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	run := emit(t, s, request("restart"))
	claim(t, s, run)
	restarted := claimant("w1")
	restarted.Nonce = "n2"
	_, err := s.Claim(t.Context(), run.ID, restarted)
	require.ErrorIs(t, err, queue.ErrNotClaimable)
	expire(t, s)
	lease, err := s.Claim(t.Context(), run.ID, restarted)
	require.NoError(t, err)
	require.Equal(t, "w1/n2", lease.Owner())
	require.EqualValues(t, 2, lease.Epoch())
}

// A36
func TestTwoRunsOnOneRefNeverOverlap(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	first := emit(t, s, request("shared"))
	r := request("shared")
	r.TriggerKey = "shared-2"
	r.Repository = "ssh://git@git.example/team/shared.git" // another spelling of the same repository
	second := emit(t, s, r)
	r.TriggerKey, r.TargetRef, r.Task = "shared-3", "refs/heads/other", "another change"
	third := emit(t, s, r)
	lease := claim(t, s, first)
	_, err := s.Claim(t.Context(), second.ID, claimant("w2"))
	require.ErrorIs(t, err, queue.ErrRefLocked)
	run, err := s.Run(t.Context(), second.ID)
	require.NoError(t, err)
	require.Equal(t, evidence.StateCreated, run.State)
	require.Zero(t, run.Epoch, "a refused claim leaves no trace")
	claim(t, s, third)

	jobs := func() int {
		return scalar[int](t, s, `SELECT count(*)::int FROM river_job WHERE kind = 'harness_run' AND args->>'run' = $1`, second.ID)
	}
	require.Equal(t, 1, jobs())
	complete(t, t.Context(), lease)
	require.Equal(t, 2, jobs(), "letting go of the ref wakes the run that waits for it")
	claim(t, s, run)
}

// A36
func TestRefLockFollowsTheRunsEpoch(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	run := emit(t, s, request("lock"))
	claim(t, s, run)
	expire(t, s)
	lease := claim(t, s, run)
	require.EqualValues(t, 2, scalar[int64](t, s, `SELECT epoch FROM ref_lock WHERE run_id = $1`, run.ID))
	start(t, t.Context(), lease)
	// Whatever came between, an epoch that does not hold the ref saves no intent.
	sql(t, s, `UPDATE ref_lock SET epoch = 1`)
	require.ErrorIs(t, lease.SaveIntent(t.Context(), intentOf(run)), queue.ErrRefLocked)
}

// A44
func TestStartedRunIsNeverClaimedAgain(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	run := emit(t, s, request("started"))
	lease := claim(t, s, run)
	start(t, t.Context(), lease)
	require.ErrorIs(t, lease.Release(t.Context()), queue.ErrStarted)
	_, err := s.TakeOver(t.Context(), run.ID, claimant("w2"), false)
	require.ErrorIs(t, err, queue.ErrNotClaimable, "as long as the lease lives")
	expire(t, s)
	_, err = s.Claim(t.Context(), run.ID, claimant("w2"))
	require.ErrorIs(t, err, queue.ErrNotClaimable)
	taken, err := s.TakeOver(t.Context(), run.ID, claimant("w2"), false)
	require.NoError(t, err)
	require.EqualValues(t, 2, taken.Epoch())
	require.NotNil(t, taken.Run().StartedAt)
	_, err = s.TakeOver(t.Context(), run.ID, claimant("w3"), false)
	require.ErrorIs(t, err, queue.ErrNotClaimable)
	require.NoError(t, taken.Close(t.Context(), failed(evidence.EffectNotApplied, evidence.CodeWorkerLost)))
}

func TestJobOfAPastEpochClaimsNothing(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	run := emit(t, s, request("past"))
	require.NoError(t, claim(t, s, run).Release(t.Context()))
	stale := claimant("w1")
	stale.Epoch = 1
	_, err := s.Claim(t.Context(), run.ID, stale)
	require.ErrorIs(t, err, queue.ErrNotClaimable)
	stale.Epoch = 2
	_, err = s.Claim(t.Context(), run.ID, stale)
	require.NoError(t, err)
}

// A13
func TestAttendedRunIsClaimedByItsOwnProcessOnly(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	r := request("attended")
	r.Attended, r.Operator = true, "ada"
	run, created, err := s.Emit(t.Context(), r, queue.Emission{Pin: pins(r), Queue: "attended-1"})
	require.NoError(t, err)
	require.True(t, created)
	_, err = s.Claim(t.Context(), run.ID, claimant("w1"))
	require.ErrorIs(t, err, queue.ErrNotClaimable)
	own := claimant("w1")
	own.Queue = "attended-1"
	lease, err := s.Claim(t.Context(), run.ID, own)
	require.NoError(t, err)
	start(t, t.Context(), lease)
	expire(t, s)
	_, err = s.TakeOver(t.Context(), run.ID, claimant("w2"), false)
	require.NoError(t, err, "any worker may settle it")
}

func TestDeadlineThatPassedEndsARunThatWasNotStarted(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	r := request("late")
	r.DeadlineSeconds = 1
	run := emit(t, s, r)
	time.Sleep(1100 * time.Millisecond)
	_, err := s.Claim(t.Context(), run.ID, claimant("w1"))
	require.ErrorIs(t, err, queue.ErrNotClaimable)
	lease, err := s.TakeOver(t.Context(), run.ID, claimant("w1"), false)
	require.NoError(t, err)
	c := failed(evidence.EffectNotDispatched, evidence.CodeDeadlinePassed)
	c.State, c.Disposition, c.Stage = evidence.StateExpired, evidence.OutcomeExpired, evidence.StageClaim
	require.NoError(t, lease.Close(t.Context(), c))
}

func TestClaimantsNamesArePlain(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	run := emit(t, s, request("names"))
	for _, name := range []string{"", "a/b", "a b", "a\nb", "-x"} {
		_, err := s.Claim(t.Context(), run.ID, queue.Claimant{WorkerID: name, Nonce: "n", Engine: "e"})
		require.Error(t, err)
	}
	_, err := s.Claim(t.Context(), "00000000-none", claimant("w1"))
	require.ErrorIs(t, err, queue.ErrNotFound)
}
