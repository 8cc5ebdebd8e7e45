package queue_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/queue"
	"github.com/rein-aharness/harness/rein/credential"
)

func cancelled(effect evidence.Effect) queue.Closing {
	return queue.Closing{
		State: evidence.StateCancelled, Effect: effect, Stage: evidence.StageReconcile, Code: evidence.CodeCancelled,
		Disposition: evidence.OutcomeCancelled, Sign: signed,
	}
}

// B34
func TestCancelFencesTheWorkerAndIsSettledByAReconciler(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	run := emit(t, s, request("cancel"))
	lease := claim(t, s, run)
	start(t, t.Context(), lease)
	kept, stop := lease.Keep(t.Context())
	defer stop()
	require.NoError(t, s.Cancel(t.Context(), run.ID, "ada", "not needed"))
	require.NoError(t, s.Cancel(t.Context(), run.ID, "bob", "twice"))
	<-kept.Done()
	require.ErrorIs(t, context.Cause(kept), queue.ErrCancelRequested)
	require.ErrorIs(t, context.Cause(kept), queue.ErrLeaseLost)
	err := lease.SaveIntent(t.Context(), intentOf(run))
	require.ErrorIs(t, err, queue.ErrCancelRequested)

	_, err = s.Claim(t.Context(), run.ID, claimant("w2"))
	require.ErrorIs(t, err, queue.ErrNotClaimable)
	taken, err := s.TakeOver(t.Context(), run.ID, claimant("w2"), false)
	require.NoError(t, err)
	require.EqualValues(t, 3, taken.Epoch(), "the cancel took an epoch of its own")
	require.Equal(t, "ada", taken.Run().CancelBy)
	require.Equal(t, evidence.StateCancelRequested, taken.Run().State)
	require.NoError(t, taken.Stage(t.Context(), evidence.StageReconcile), "the reconciler's own lease holds")
	require.NoError(t, taken.Record(evidence.StageReconcile, evidence.SourceDeclared, evidence.Cancelled{By: "ada", Reason: "not needed"}))
	require.NoError(t, taken.Close(t.Context(), cancelled(evidence.EffectNotApplied)))
	require.ErrorIs(t, s.Cancel(t.Context(), run.ID, "ada", ""), queue.ErrFinal)
	require.ErrorIs(t, s.Cancel(t.Context(), "00000000-none", "ada", ""), queue.ErrNotFound)
}

func TestCancelBeforeTheClaim(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	run := emit(t, s, request("early"))
	require.NoError(t, s.Cancel(t.Context(), run.ID, "ada", ""))
	_, err := s.Claim(t.Context(), run.ID, claimant("w1"))
	require.ErrorIs(t, err, queue.ErrNotClaimable)
	taken, err := s.TakeOver(t.Context(), run.ID, claimant("w1"), false)
	require.NoError(t, err)
	require.Nil(t, taken.Run().StartedAt)
	require.NoError(t, taken.Close(t.Context(), cancelled(evidence.EffectNotDispatched)))
}

// B28, B32, B34
func TestUnknownStaysUnknownUntilTheRemoteDecides(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	run := emit(t, s, request("unknown"))
	lease := claim(t, s, run)
	start(t, t.Context(), lease)
	intend(t, t.Context(), lease)
	require.Error(t, lease.Defer(t.Context(), queue.Deferral{Effect: evidence.EffectConfirmed}))
	require.NoError(t, lease.Defer(t.Context(), queue.Deferral{
		Effect: evidence.EffectUnknown, Reason: "the remote does not answer", Check: time.Hour,
	}))
	run, err := s.Run(t.Context(), run.ID)
	require.NoError(t, err)
	require.Equal(t, evidence.StateWaitingExternal, run.State)
	require.Equal(t, evidence.EffectUnknown, run.Effect)
	require.Equal(t, "the remote does not answer", run.WaitReason)
	stuck, err := s.Runs(t.Context(), queue.Filter{Stuck: true})
	require.NoError(t, err)
	require.Len(t, stuck, 1)

	r := request("unknown")
	r.TriggerKey = "next"
	next := emit(t, s, r)
	_, err = s.Claim(t.Context(), next.ID, claimant("w2"))
	require.ErrorIs(t, err, queue.ErrRefLocked, "the ref stays locked")
	_, err = s.TakeOver(t.Context(), run.ID, claimant("w2"), false)
	require.ErrorIs(t, err, queue.ErrNotClaimable, "not due")
	taken, err := s.TakeOver(t.Context(), run.ID, claimant("w2"), true)
	require.NoError(t, err)
	require.NoError(t, taken.Defer(t.Context(), queue.Deferral{Effect: evidence.EffectUnknown, Check: time.Hour}))

	require.NoError(t, s.Cancel(t.Context(), run.ID, "ada", ""))
	run, err = s.Run(t.Context(), run.ID)
	require.NoError(t, err)
	require.Equal(t, evidence.StateWaitingExternal, run.State, "a cancel decides nothing about the remote")
	taken, err = s.TakeOver(t.Context(), run.ID, claimant("w2"), false)
	require.NoError(t, err, "but has it looked at now")
	require.NoError(t, taken.Record(evidence.StageReconcile, evidence.SourceObserved, evidence.Settled{
		By: "reconciler", Transaction: "tx-" + run.ID, Effect: evidence.EffectNotApplied,
	}))
	require.NoError(t, taken.Close(t.Context(), cancelled(evidence.EffectNotApplied)))
	claim(t, s, next)
	require.ErrorIs(t, s.CheckNow(t.Context(), run.ID), queue.ErrNotClaimable)
}

func TestReconcilerThatGivesBackLeavesTheRunDue(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	run := emit(t, s, request("back"))
	lease := claim(t, s, run)
	start(t, t.Context(), lease)
	expire(t, s)
	taken, err := s.TakeOver(t.Context(), run.ID, claimant("w2"), false)
	require.NoError(t, err)
	require.NoError(t, taken.Release(t.Context()))
	_, err = s.TakeOver(t.Context(), run.ID, claimant("w3"), false)
	require.NoError(t, err)
}

// A30
func TestTokensWhoseHolderIsGoneAreListedUntilTheyAreRevoked(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	run := emit(t, s, request("tokens"))
	lease := claim(t, s, run)
	token := credential.Token{
		Accessor: "acc-1", Run: run.ID, Epoch: 1, Purpose: credential.PurposeSession, ExpiresAt: time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond),
	}
	require.NoError(t, lease.RecordToken(t.Context(), token))
	require.NoError(t, lease.RecordToken(t.Context(), token))
	foreign := token
	foreign.Epoch = 7
	require.Error(t, lease.RecordToken(t.Context(), foreign))
	require.Error(t, s.RecordToken(t.Context(), token))
	check := credential.Token{Accessor: "acc-2", Purpose: credential.PurposeCheck, ExpiresAt: token.ExpiresAt}
	require.NoError(t, s.RecordToken(t.Context(), check))

	orphans, err := s.OrphanedTokens(t.Context(), 10)
	require.NoError(t, err)
	require.Empty(t, orphans)
	held, err := s.Holds(t.Context(), run.ID, 1)
	require.NoError(t, err)
	require.True(t, held)

	expire(t, s)
	sql(t, s, `UPDATE run_token SET recorded_at = now() - interval '1 hour'`)
	held, err = s.Holds(t.Context(), run.ID, 1)
	require.NoError(t, err)
	require.False(t, held)
	orphans, err = s.OrphanedTokens(t.Context(), 10)
	require.NoError(t, err)
	require.Len(t, orphans, 2)
	require.ErrorIs(t, lease.RecordToken(t.Context(), credential.Token{Accessor: "acc-3", Run: run.ID, Epoch: 1}), queue.ErrLeaseLost)
	require.NoError(t, lease.TokenRevoked(t.Context(), "acc-1"), "after the lease was lost too")
	require.NoError(t, s.TokenRevoked(t.Context(), "acc-2"))
	orphans, err = s.OrphanedTokens(t.Context(), 10)
	require.NoError(t, err)
	require.Empty(t, orphans)
}

func TestFenceIsDueOnceItsRetentionHasPassed(t *testing.T) {
	t.Parallel()
	s := newStore(t, func(c *queue.Config) { c.FenceRetention = 48 * time.Hour })
	run := emit(t, s, request("fence"))
	lease := claim(t, s, run)
	require.NoError(t, lease.RecordFence(t.Context(), "refs/harness/fence/"+run.ID, commitOf("f")))
	require.NoError(t, lease.RecordFence(t.Context(), "refs/harness/fence/"+run.ID, commitOf("f")), "the same again")
	err := lease.RecordFence(t.Context(), "refs/harness/fence/"+run.ID, commitOf("e"))
	require.Equal(t, evidence.CodeFenceConflict, evidence.CodeOf(err), "%v", err)
	values, err := s.FenceValues(t.Context(), run.ID)
	require.NoError(t, err)
	require.Equal(t, []string{commitOf("f")}, values)
	complete(t, t.Context(), lease)
	due, err := s.DueFences(t.Context(), 10)
	require.NoError(t, err)
	require.Empty(t, due)
	require.True(t, scalar[bool](t, s, `
		SELECT f.due_at >= r.finished_at + interval '48 hours' FROM run_fence f JOIN ops_run r ON r.id = f.run_id`),
		"a fence stays for its whole retention")
	sql(t, s, `UPDATE run_fence SET due_at = now() - interval '1 second'`)
	due, err = s.DueFences(t.Context(), 10)
	require.NoError(t, err)
	require.Len(t, due, 1)
	require.Equal(t, commitOf("c"), due[0].Value, "what the close left it with")
	require.Equal(t, run.ID, due[0].Run.ID)
	require.NoError(t, s.FenceDeleted(t.Context(), run.ID))
	due, err = s.DueFences(t.Context(), 10)
	require.NoError(t, err)
	require.Empty(t, due)
}

// A fence that only the settling of a lost run has closed is deleted after its retention like any other.
func TestAFenceThatNoLeaseHasRecordedIsDueAfterTheClose(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	run := emit(t, s, request("unrecorded"))
	lease := claim(t, s, run)
	complete(t, t.Context(), lease)
	sql(t, s, `UPDATE run_fence SET due_at = now() - interval '1 second'`)
	due, err := s.DueFences(t.Context(), 10)
	require.NoError(t, err)
	require.Len(t, due, 1)
	require.Equal(t, "refs/harness/fence/"+run.ID, due[0].Ref)
	require.Equal(t, commitOf("c"), due[0].Value)
}
