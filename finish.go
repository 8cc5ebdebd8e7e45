package harness

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/internal/failpoint"
	"github.com/rein-aharness/harness/queue"
	"github.com/rein-aharness/harness/rein/credential"
	"github.com/rein-aharness/harness/repotx"
)

// How long what comes after the chain may take when the run's own context has ended, and how soon a remote that could not
// decide is looked at again.
const (
	finishWithin = 60 * time.Second
	checkAgain   = 30 * time.Second
)

// finish ends the run for the outcome of its chain. A lease that is lost ends nothing here: whoever holds the next epoch settles
// the run. Otherwise the fence is brought to a terminal value, credentials are revoked, and the run is closed in one transaction;
// what the remote cannot decide waits. (A37, A43, A44)
func (x *execution) finish(ctx context.Context, failure error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishWithin)
	defer cancel()
	defer func() {
		if x.baseline != nil {
			if err := x.baseline.Close(); err != nil {
				x.log.Warn("close the baseline", "error", err)
			}
		}
	}()
	if code := evidence.CodeOf(failure); failure != nil && (code == evidence.CodeLeaseLost || code == evidence.CodeCancelled) {
		return errors.Join(failure, x.revoke(ctx))
	}
	if !x.started && failure != nil && (ctxEnded(failure) || evidence.CodeOf(failure) == evidence.CodeStoreFailed) {
		return errors.Join(failure, x.lease.Release(ctx)) // asked to stop, or the database did not answer, before anything began
	}
	if failure != nil {
		if err := recordFailure(x.lease, failure); err != nil {
			return errors.Join(failure, err)
		}
	}
	if err := x.settle(ctx); err != nil {
		return errors.Join(failure, err, x.revoke(ctx))
	}
	if err := x.revoke(ctx); err != nil {
		// What was published is what it is; the token ends at its explicit maximum and the sweep proves it. (A44)
		x.log.Error("revoke the publish credential", "error", err)
	}
	return errors.Join(failure, x.h.conclude(ctx, x.lease, x.settled, failure))
}

// settle brings the fence of a run that has one to a terminal value. Confirmed runs are settled already.
func (x *execution) settle(ctx context.Context) error {
	if x.settled != nil || !x.started {
		return nil
	}
	if !x.fenced && !x.waived {
		return nil // nothing was asked of the remote
	}
	settlement, err := x.h.settleRun(ctx, x.lease, x.remote, x.waived)
	if err != nil {
		return err
	}
	x.settled = &settlement
	return nil
}

// settleRun asks the remote what became of a run, with everything that is stored about what it may have asked for.
func (h *Harness) settleRun(ctx context.Context, lease *queue.Lease, remote *repotx.Remote, waived bool) (repotx.Settlement, error) {
	run := lease.Run()
	in := repotx.SettleInput{
		Run: run.ID, Epoch: lease.Epoch(), Waived: waived,
		TargetRef: run.TargetRef, BaseRef: run.BaseRef, Profile: run.Profile + "#" + run.ProfileDigest, Baseline: run.Baseline,
	}
	saved, found, err := h.store.Intent(ctx, run.ID)
	if err != nil {
		return repotx.Settlement{}, err
	}
	if found {
		intent := restored(run.ID, saved)
		in.Intent = &intent
	} else if in.RecordLost, err = h.store.OutlivedItsRecord(ctx, run.ID); err != nil {
		return repotx.Settlement{}, err
	}
	if in.Fences, err = h.store.FenceValues(ctx, run.ID); err != nil {
		return repotx.Settlement{}, err
	}
	settlement, err := remote.Settle(ctx, in)
	if err != nil {
		return repotx.Settlement{}, err
	}
	if settlement.Why != nil {
		h.log.Warn("the remote does not decide", "run", run.ID, "reason", settlement.Reason, "error", settlement.Why)
	}
	return settlement, nil
}

// revoke gives the publish credential back.
func (x *execution) revoke(ctx context.Context) error {
	if x.publish == nil {
		return nil
	}
	return giveBack(ctx, x.publish)
}

// conclude closes a run, or lets it wait when only the remote or an operator can decide it.
func (h *Harness) conclude(ctx context.Context, lease *queue.Lease, settlement *repotx.Settlement, failure error) error {
	effect := evidence.EffectNotDispatched
	fence := ""
	if settlement != nil {
		if failure == nil && settlement.Effect == evidence.EffectNotApplied {
			// Nothing failed and nothing was to be applied: the session changed nothing.
			settlement.Effect = evidence.EffectNotDispatched
		}
		effect, fence = settlement.Effect, settlement.Fence
		if !effect.Final() {
			return h.wait(ctx, lease, *settlement)
		}
		if err := h.recordSettlement(lease, *settlement); err != nil {
			return err
		}
	}
	end, err := closing(effect, settlement, failure)
	if err != nil {
		return err
	}
	end.Fence = fence
	return h.close(ctx, lease, end)
}

// close signs the evidence and ends the run. (A44, A48)
func (h *Harness) close(ctx context.Context, lease *queue.Lease, end queue.Closing) error {
	if err := failpoint.Hit(failpoint.CloseBefore); err != nil {
		return err
	}
	signer, done, err := h.signer(ctx, lease)
	if err != nil {
		return evidence.Fail(evidence.StageClose, evidence.CodeSigningFailed, "", err)
	}
	defer done()
	end.Sign = func(facts []evidence.Fact) ([]byte, error) {
		statement, err := evidence.BuildStatement(facts)
		if err != nil {
			return nil, err
		}
		envelope, err := signer.Sign(statement)
		if err != nil {
			return nil, err
		}
		return envelope, failpoint.Hit(failpoint.CloseAfterSign)
	}
	if err := lease.Close(ctx, end); err != nil {
		return evidence.Fail(evidence.StageClose, evidence.CodeCloseFailed, "", err)
	}
	return failpoint.Hit(failpoint.CloseAfter)
}

// wait leaves the run to a later look at the remote, or to an operator.
func (h *Harness) wait(ctx context.Context, lease *queue.Lease, s repotx.Settlement) error {
	return lease.Defer(ctx, queue.Deferral{Effect: s.Effect, Reason: string(s.Reason), Check: checkAgain})
}

func (h *Harness) recordSettlement(lease *queue.Lease, s repotx.Settlement) error {
	by, stage := "worker", evidence.StageAccept
	if lease.Reconciles() {
		by, stage = "reconciler", evidence.StageReconcile
	}
	transaction, err := settledTransaction(lease, stage, s)
	if err != nil {
		return err
	}
	return lease.Record(stage, evidence.SourceObserved, evidence.Settled{
		By: by, Transaction: transaction, Effect: s.Effect, Reason: string(s.Reason), Fence: s.Fence, Branch: s.Branch, Displaced: s.Displaced,
	})
}

// settledTransaction is the transaction that a settlement is about: the intended one, or that of a commit which only the remote knows,
// and which is recorded as found.
func settledTransaction(lease *queue.Lease, stage evidence.Stage, s repotx.Settlement) (string, error) {
	before, is, err := evidence.Last[evidence.Found](lease.Facts())
	switch {
	case err != nil:
		return "", err
	case is && s.Found != nil && s.Found.Commit != before.Commit:
		return "", fmt.Errorf("settle run %s: the remote shows commit %s, and showed %s before", lease.Run().ID, s.Found.Commit, before.Commit)
	case is:
		return before.Transaction, nil
	}
	intended, is, err := evidence.Last[evidence.Intended](lease.Facts())
	if err != nil || is || s.Found == nil {
		return intended.Transaction, err
	}
	by := "branch"
	if s.Found.Fenced {
		by = "fence"
	}
	return s.Found.Transaction, lease.Record(stage, evidence.SourceObserved, evidence.Found{
		By: by, Transaction: s.Found.Transaction, Profile: s.Found.Profile, Commit: s.Found.Commit, Tree: s.Found.Tree, Parent: s.Found.Parent,
	})
}

// closing says how a run ends, from what the remote decided and what failed.
func closing(effect evidence.Effect, settlement *repotx.Settlement, failure error) (queue.Closing, error) {
	completed := queue.Closing{State: evidence.StateCompleted, Effect: effect, Stage: evidence.StageClose, Disposition: evidence.OutcomeCompleted}
	switch {
	case effect == evidence.EffectConfirmed:
		return completed, nil // whatever came in between: an answer that was lost, or a worker
	case failure == nil:
		completed.Disposition = evidence.OutcomeNoChange
		return completed, nil
	}
	var f *evidence.Failure
	if !errors.As(failure, &f) {
		return queue.Closing{}, fmt.Errorf("close: %w", failure)
	}
	stage, code := f.Stage, f.Code
	if code == evidence.CodePublicationUnclear && settlement != nil && settlement.Code != "" {
		code = settlement.Code // the remote has said meanwhile what it was
	}
	disposition := evidence.Dispose(stage, code)
	if effect == evidence.EffectNotDispatched && disposition.Effect == evidence.EffectNotApplied {
		effect = disposition.Effect // a change that the remote has no place for any more, found before anything was asked of it
	}
	end := queue.Closing{
		State: disposition.State, Effect: effect, Stage: stage, Code: code, Subject: f.Subject, Disposition: disposition.Outcome,
	}
	if !end.State.Final() {
		// The remote has decided, or the database was asked for long enough: what would have been waited for is over.
		end.State, end.Disposition = evidence.StateFailed, evidence.OutcomeFailed
	}
	return end, nil
}

func recordFailure(lease *queue.Lease, failure error) error {
	var f *evidence.Failure
	if !errors.As(failure, &f) {
		return fmt.Errorf("record a failure that has no code: %w", failure)
	}
	return lease.Record(f.Stage, evidence.SourceObserved, evidence.Failed{Stage: f.Stage, Code: f.Code, Subject: f.Subject})
}

// signer takes the signing key from its Vault route, on a token of its own, for one close.
func (h *Harness) signer(ctx context.Context, lease *queue.Lease) (*evidence.Signer, func(), error) {
	route := h.config.Signing.route()
	holder := credential.Holder{Run: lease.Run().ID, Epoch: lease.Epoch(), Owner: lease.Owner(), Purpose: credential.PurposeSigning}
	session, err := h.vault.Begin(ctx, holder, []string{route.Policy}, time.Duration(route.TTLSeconds)*time.Second, lease)
	if err != nil {
		return nil, nil, err
	}
	done := func() {
		if err := giveBack(ctx, session); err != nil {
			h.log.Error("revoke the signing token", "run", lease.Run().ID, "error", err)
		}
	}
	key, err := session.SigningKey(ctx, route)
	if err != nil {
		done()
		return nil, nil, err
	}
	signer, err := evidence.NewSigner(key)
	if err != nil {
		done()
		return nil, nil, err
	}
	return signer, done, nil
}

func ctxEnded(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
