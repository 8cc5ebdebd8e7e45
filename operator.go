package harness

import (
	"context"
	"errors"
	"fmt"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/queue"
)

// ReconcileNow takes over one run that has to be settled, without waiting for its turn, and settles it in this process. (A44)
func (h *Harness) ReconcileNow(ctx context.Context, run string) error {
	return h.takeOver(ctx, run, h.Reconcile)
}

// ErrRemoteDecides refuses an operator's decision about a run that the remote can decide. The run is settled as the remote says.
var ErrRemoteDecides = errors.New("the remote decides it by itself")

// SettleByOperator closes a run that the remote cannot decide, with the effect that a named operator has found out by other means:
// confirmed or not_applied. The decision is part of the evidence and is labelled as the operator's. The remote is asked first; what it
// decides by itself is what counts. (B28, B32)
func (h *Harness) SettleByOperator(ctx context.Context, run string, effect evidence.Effect, operator, reason string) error {
	if effect != evidence.EffectConfirmed && effect != evidence.EffectNotApplied {
		return fmt.Errorf("settle run %s: an operator decides for confirmed or not_applied, not for %q", run, effect)
	}
	if operator == "" || reason == "" {
		return fmt.Errorf("settle run %s: an operator and a reason are needed", run)
	}
	return h.takeOver(ctx, run, func(ctx context.Context, lease *queue.Lease) error {
		ctx, stop := lease.Keep(ctx)
		defer stop()
		failure, err := lost(lease)
		if err != nil {
			return err
		}
		settlement, err := h.ask(ctx, lease)
		if err != nil {
			return err
		}
		if settlement.Effect.Final() {
			return errors.Join(
				fmt.Errorf("settle run %s: %w: %s (%s)", run, ErrRemoteDecides, settlement.Effect, settlement.Reason),
				h.conclude(ctx, lease, &settlement, failure))
		}
		if effect == evidence.EffectNotApplied {
			settlement.Found = nil // whatever it is, it is not this run's change
		}
		transaction, err := settledTransaction(lease, evidence.StageReconcile, settlement)
		if err != nil {
			return err
		}
		err = lease.Record(evidence.StageReconcile, evidence.SourceDeclared, evidence.Settled{
			By: "operator " + operator, Transaction: transaction, Effect: effect, Reason: reason,
			Fence: settlement.Fence, Branch: settlement.Branch,
		})
		if err != nil {
			return err
		}
		end, err := closing(effect, &settlement, failure)
		if err != nil {
			return err
		}
		end.Fence = settlement.Fence
		return h.close(ctx, lease, end)
	})
}

// takeOver takes the lease of a run that has to be settled for do, which keeps it as long as it works on the run.
func (h *Harness) takeOver(ctx context.Context, run string, do func(context.Context, *queue.Lease) error) error {
	lease, err := h.store.TakeOver(ctx, run, queue.Claimant{
		WorkerID: h.config.Worker.ID, Nonce: h.nonce, Engine: h.config.Engine.Name,
	}, true)
	if err != nil {
		return err
	}
	err = do(ctx, lease)
	if lease.Held() {
		err = errors.Join(err, lease.Release(context.WithoutCancel(ctx)))
	}
	return err
}
