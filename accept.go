package harness

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/internal/failpoint"
	"github.com/rein-aharness/harness/queue"
	"github.com/rein-aharness/harness/repotx"
)

// raiseFence creates the run's fence on the remote: the register that decides, unique to this lease. That it may exist is
// recorded first, so that whoever settles the run looks for it. (A37, A40)
func (x *execution) raiseFence(ctx context.Context) error {
	if x.waived {
		return nil
	}
	if err := x.lease.RecordFence(ctx, x.fence.Ref, x.fence.Value); err != nil {
		return err
	}
	x.fenced = true
	return x.remote.CreateFence(ctx, x.fence)
}

// accept makes the change one commit and publishes it, if everything that was decided before still holds: the change is inside
// the grant, the pins are what they were, the run is neither cancelled nor paused, and the lease holds. The intent is durable
// before the first byte is sent. (A34 to A41)
//
// A session that changed nothing is an outcome of its own: nothing is required, nothing is published, and the fence is closed.
func (x *execution) accept(ctx context.Context, changes repotx.ChangeSet) error {
	if changes.Empty() {
		return nil
	}
	if err := x.baseline.Check(changes, x.allowance); err != nil {
		return err
	}
	intent, commit, err := x.intend(ctx, changes)
	if err != nil {
		return err
	}
	if err := x.open(ctx); err != nil {
		return err
	}
	if err := x.recheck(ctx, evidence.StageAccept); err != nil {
		return err
	}
	if err := x.record(commit, intent); err != nil {
		return err
	}
	if err := failpoint.Hit(failpoint.AcceptBeforeIntent); err != nil {
		return err
	}
	if err := x.lease.SaveIntent(ctx, stored(intent)); err != nil {
		return err
	}
	if err := failpoint.Hit(failpoint.AcceptAfterIntent); err != nil {
		return err
	}
	return x.publishIntent(ctx, intent)
}

// pausedPoll is how often a run that waits for the harness to be resumed looks.
const pausedPoll = time.Second

// open returns when publications are open, and with an error when the lease or the context has ended. A run that comes to its
// acceptance while the harness is paused keeps its lease and waits. One that is paused later, between its recheck and the send, is
// refused, since what was checked may not hold any more.
func (x *execution) open(ctx context.Context) error {
	for {
		err := x.lease.Check(ctx)
		if !errors.Is(err, queue.ErrPaused) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pausedPoll):
		}
	}
}

// intend builds the commit and says exactly what is to be published. Both dates are the emission's, so that the bytes follow from
// the contract and the change alone.
func (x *execution) intend(ctx context.Context, changes repotx.ChangeSet) (repotx.Intent, *repotx.Commit, error) {
	transaction := x.run.ID + "." + fmt.Sprint(x.lease.Epoch())
	spec := x.profile.Rein
	commit, err := x.baseline.Build(ctx, changes, repotx.Author{Name: spec.Author.Name, Email: spec.Author.Email},
		spec.CommitMessage(x.run.ID, x.run.Definition), []repotx.Trailer{
			{Key: repotx.TrailerRun, Value: x.run.ID},
			{Key: repotx.TrailerTransaction, Value: transaction},
			{Key: repotx.TrailerProfile, Value: x.contract.Request.Profile},
		}, x.run.CreatedAt)
	if err != nil {
		return repotx.Intent{}, nil, err
	}
	old := x.run.Baseline
	if x.run.TargetRef != x.run.BaseRef {
		old = repotx.Absent
	}
	return repotx.Intent{
		Run: x.run.ID, Transaction: transaction, Epoch: x.lease.Epoch(), Fence: x.fence, TargetRef: x.run.TargetRef, Old: old,
		BaseRef: x.run.BaseRef, Base: x.run.Baseline, Commit: commit.Hash, Pack: commit.Pack, PackDigest: commit.PackDigest,
	}, commit, nil
}

func (x *execution) record(c *repotx.Commit, in repotx.Intent) error {
	return x.lease.Record(evidence.StageAccept, evidence.SourceObserved, evidence.Intended{
		Transaction: in.Transaction, Commit: c.Hash, Tree: c.Tree, Baseline: in.Base, BaseRef: in.BaseRef, TargetRef: in.TargetRef,
		Old: in.Old, FenceRef: in.Fence.Ref, FenceValue: in.Fence.Value, PackDigest: c.PackDigest, PackBytes: int64(len(c.Pack)),
		ChangedPaths: c.ChangedPaths, ChangedCount: len(c.ChangedPaths), Insertions: int64(c.Insertions), Deletions: int64(c.Deletions),
	})
}

// publishIntent sends the one atomic request, bounded by what is left of the lease, and reads the remote back. Only a full answer
// and the remote itself confirm; anything else decides nothing and is settled. (A41)
func (x *execution) publishIntent(ctx context.Context, in repotx.Intent) error {
	if err := x.lease.Check(ctx); err != nil {
		return err
	}
	if err := failpoint.Hit(failpoint.AcceptBeforeSend); err != nil {
		return err
	}
	answer, sent := x.remote.Publish(ctx, in)
	if err := failpoint.Hit(failpoint.AcceptAfterSend); err != nil {
		return err
	}
	observed, seen := x.remote.ReadBack(ctx, in)
	confirmed := sent == nil && answer.Complete() && seen == nil && observed.Confirms(in)
	fact := evidence.Published{
		Transaction: in.Transaction, Answer: answer.Status, Branch: observed.Branch, Fence: observed.Fence, Lease: "held", ReadBack: confirmed,
	}
	if !x.lease.Held() {
		fact.Lease = "expired_unclaimed"
	}
	if err := x.lease.Record(evidence.StageAccept, evidence.SourceObserved, fact); err != nil {
		return err
	}
	if !confirmed {
		return evidence.Fail(evidence.StageAccept, evidence.CodePublicationUnclear, in.TargetRef, errors.Join(sent, answer.Err, seen))
	}
	x.settled = &repotx.Settlement{Effect: evidence.EffectConfirmed, Reason: "published", Fence: observed.Fence, Branch: observed.Branch}
	return nil
}

// stored and restored convert between the intent as the queue keeps it and as the remote is told.
func stored(in repotx.Intent) queue.Intent {
	return queue.Intent{
		TransactionID: in.Transaction, Epoch: in.Epoch, TargetRef: in.TargetRef, Old: in.Old, BaseRef: in.BaseRef, BaseCommit: in.Base,
		Commit: in.Commit, FenceRef: in.Fence.Ref, FenceValue: in.Fence.Value, Pack: in.Pack, PackDigest: in.PackDigest,
	}
}

func restored(run string, in queue.Intent) repotx.Intent {
	return repotx.Intent{
		Run: run, Transaction: in.TransactionID, Epoch: in.Epoch, TargetRef: in.TargetRef, Old: in.Old, BaseRef: in.BaseRef,
		Base: in.BaseCommit, Commit: in.Commit, Fence: repotx.Fence{Ref: in.FenceRef, Value: in.FenceValue},
		Pack: in.Pack, PackDigest: in.PackDigest,
	}
}
