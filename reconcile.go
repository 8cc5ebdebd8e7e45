package harness

import (
	"context"
	"errors"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/profiles"
	"github.com/rein-aharness/harness/queue"
	"github.com/rein-aharness/harness/rein/credential"
	"github.com/rein-aharness/harness/repotx"
)

// Reconcile settles a run that was taken over: cancelled, started and left behind, waiting for the remote, or past its deadline.
// It never runs a session and never makes a commit; it finds out, from the remote, what became of the one that may have been
// made, with a credential of its own. It implements queue.Handler. (A37, A44, B32, B34)
func (h *Harness) Reconcile(ctx context.Context, lease *queue.Lease) error {
	ctx, stop := lease.Keep(ctx)
	defer stop()
	run := lease.Run()
	h.watch(Progress{Run: run.ID, Stage: evidence.StageReconcile, At: h.store.Now()})
	err := h.reconcile(ctx, lease)
	h.watch(Progress{Run: run.ID, Stage: evidence.StageReconcile, Done: true, Err: err, At: h.store.Now()})
	return err
}

func (h *Harness) reconcile(ctx context.Context, lease *queue.Lease) error {
	run := lease.Run()
	failure, err := lost(lease)
	if err != nil {
		return err
	}
	if evidence.CodeOf(failure) == evidence.CodeCancelled {
		err := lease.Record(evidence.StageReconcile, evidence.SourceDeclared, evidence.Cancelled{By: run.CancelBy, Reason: run.CancelReason})
		if err != nil {
			return err
		}
	}
	if run.StartedAt == nil {
		if err := recordFailure(lease, failure); err != nil {
			return err
		}
		return h.conclude(ctx, lease, nil, failure)
	}
	if err := h.clear(ctx, lease); err != nil {
		return err
	}
	return h.settleLost(ctx, lease, failure)
}

// lost is the failure that a run which needs settling ends with, unless the remote confirms it. A run that its worker left to wait
// ends with what the worker has found.
func lost(lease *queue.Lease) (failure, err error) {
	run := lease.Run()
	found, waits, err := evidence.First[evidence.Failed](lease.Facts())
	switch {
	case err != nil:
		return nil, err
	case run.CancelRequestedAt != nil:
		return evidence.Fail(evidence.StageReconcile, evidence.CodeCancelled, run.CancelBy, nil), nil
	case run.StartedAt == nil:
		return evidence.Fail(evidence.StageReconcile, evidence.CodeDeadlinePassed, "", nil), nil
	case waits && run.State == evidence.StateWaitingExternal:
		return evidence.Fail(found.Stage, found.Code, found.Subject, nil), nil
	default:
		return evidence.Fail(evidence.StageReconcile, evidence.CodeWorkerLost, string(run.Stage), nil), nil
	}
}

// clear ends what the lost worker may have left: its tokens, by accessor, and its sandbox, where it ran on this engine. What runs
// on another machine's engine is not observed; its own janitor ends it. (A25, A30)
func (h *Harness) clear(ctx context.Context, lease *queue.Lease) error {
	fact := evidence.TornDown{}
	tokens, err := h.store.LiveTokens(ctx, lease.Run().ID)
	if err != nil {
		return err
	}
	for _, token := range tokens {
		if token.Epoch >= lease.Epoch() {
			continue
		}
		if err := h.revokeToken(ctx, token); err != nil {
			h.log.Warn("revoke what a lost worker left", "error", err)
			fact.TokensLeft++
			continue
		}
		fact.TokensRevoked++
	}
	source := evidence.SourceNotObserved
	if started, ok, err := evidence.Last[evidence.Sandboxed](lease.Facts()); err != nil {
		return err
	} else if !ok || started.Engine == h.config.Engine.Name {
		err := h.sweepSandboxes(ctx, lease.Run().ID, func(epoch int64) bool { return epoch < lease.Epoch() })
		if err != nil {
			h.log.Warn("clear what a lost worker left", "error", err)
		} else {
			source, fact.ContainerGone, fact.VolumesGone = evidence.SourceObserved, true, true
		}
	}
	// A run of an adopted database counts as started although what it began may have been lost with its record.
	if _, began, err := evidence.First[evidence.Started](lease.Facts()); err != nil || !began {
		return err
	}
	return lease.Record(evidence.StageReconcile, source, fact)
}

// settleLost settles from the remote what a lost worker may have published.
func (h *Harness) settleLost(ctx context.Context, lease *queue.Lease, failure error) error {
	settlement, err := h.ask(ctx, lease)
	if err != nil {
		return err
	}
	if settlement.Effect.Final() && settlement.Effect != evidence.EffectConfirmed {
		if err := recordFailure(lease, failure); err != nil {
			return err
		}
	}
	return h.conclude(ctx, lease, &settlement, failure)
}

// reasonContradicted is why a run waits for an operator whose row, contract, profile and emission do not say the same.
const reasonContradicted repotx.Reason = "record_contradicted"

// ask asks the remote what became of a run, with the publish route of the profile that was pinned, whatever the profile's standing
// is by now: the run is not executed any more, only found out about. Without a credential nothing is known, and neither where what is
// stored contradicts itself: another remote would say something else.
func (h *Harness) ask(ctx context.Context, lease *queue.Lease) (settlement repotx.Settlement, err error) {
	run := lease.Run()
	contract, profile, err := h.agreedProfile(ctx, run, lease.Facts())
	var refused *evidence.Failure
	switch {
	case errors.As(err, &refused):
		h.log.Error("what is stored about the run is not what was emitted", "run", run.ID, "error", err)
		return repotx.Settlement{Effect: evidence.EffectUnknown, Reason: reasonContradicted, Why: err}, nil
	case err != nil:
		return repotx.Settlement{}, err
	}
	session, remote, err := h.openRemote(ctx, lease, credential.PurposeReconcile, contract, profile.Publish)
	if session != nil {
		defer func() {
			if err := giveBack(ctx, session); err != nil {
				h.log.Error("revoke the reconciler's credential", "run", run.ID, "error", err)
			}
		}()
	}
	if err != nil {
		return repotx.Settlement{Effect: evidence.EffectUnknown, Reason: repotx.ReasonRemoteSilent, Why: err}, nil
	}
	seen, _, err := evidence.Last[evidence.Preflighted](lease.Facts())
	if err != nil {
		return repotx.Settlement{}, err
	}
	return h.settleRun(ctx, lease, remote, seen.Fencing == "waived")
}

// agreedProfile reads the contract of a run and the profile it pins, whatever the profile's standing is.
func (h *Harness) agreedProfile(ctx context.Context, run queue.Run, facts []evidence.Fact) (queue.Contract, *profiles.Profile, error) {
	contract, ref, err := agreed(run, facts)
	if err != nil {
		return queue.Contract{}, nil, err
	}
	profile, _, err := h.profiles.Get(ctx, ref)
	return contract, profile, err
}
