package repotx

import (
	"context"
	"fmt"
	"slices"

	"github.com/rein-aharness/harness/evidence"
)

// Reason says what a settlement rests on. The set is closed.
type Reason string

// The reasons. The first six, and record_lost, leave the effect unknown.
const (
	ReasonRemoteSilent   Reason = "remote_silent"   // unreachable, denied, or not understood
	ReasonFenceStuck     Reason = "fence_stuck"     // the fence did not move and did not say why: a stale lock, a hook
	ReasonFenceAbsent    Reason = "fence_absent"    // a third party deleted it; the branch does not hold the commit
	ReasonFenceForeign   Reason = "fence_foreign"   // a value that no epoch of the run set; the branch does not hold the commit
	ReasonBranchUnmoved  Reason = "branch_unmoved"  // the branch is where it was before: with the fence moved, partial
	ReasonHistoryUnread  Reason = "history_unread"  // the branch's history is longer than may be read, or not to be had
	ReasonTombstoned     Reason = "tombstoned"      // the fence is closed and the branch does not hold the commit
	ReasonBranchHolds    Reason = "branch_holds"    // the branch holds the commit
	ReasonDisplaced      Reason = "displaced"       // the commit landed, and the branch was moved away from it since
	ReasonBranchMovedOn  Reason = "branch_moved_on" // fencing waived: the branch went on from the baseline without the commit
	ReasonBranchReplaced Reason = "branch_replaced" // fencing waived: the branch no longer holds even the baseline
	ReasonRecordLost     Reason = "record_lost"     // a commit names the run, which has no record of it, and the fence does not hold it
)

// SettleInput names what is to be settled. The epoch must be committed as the run's before Settle is called: from then on
// no earlier epoch can store an intent, which is what makes an absent intent mean anything.
type SettleInput struct {
	Run   string
	Epoch int64
	// Intent is the stored intent, nil when the run has none.
	Intent *Intent
	// Fences are all values that epochs of the run recorded for its fence.
	Fences []string
	// Waived says that the run goes without a fence.
	Waived bool
	// TargetRef, BaseRef and Profile (name@version#digest) are the run's; a commit that no record names is the run's only with them.
	TargetRef, BaseRef, Profile string
	// RecordLost says that the run's records may be missing what it has done: its database was set back. Then the branch is searched
	// for a commit that names the run, from the tip back to Baseline.
	RecordLost bool
	Baseline   string
}

// Settlement is the effect of a run's publication as the remote shows it.
type Settlement struct {
	Effect evidence.Effect
	Reason Reason
	// Code is what a run ends with for this effect; "" when it is confirmed, or when there was no intent.
	Code evidence.Code
	// Fence and Branch are the last values seen, "" when absent.
	Fence, Branch string
	// Displaced says that the commit landed and the branch no longer holds it.
	Displaced bool
	// Found is the commit of a run that has no record of it, as the remote shows it; nil otherwise.
	Found *Found
	// Why explains an unknown effect, for the log.
	Why error
}

// settleAttempts bounds how often one call moves the fence and looks again.
const settleAttempts = 4

// Settle decides what became of a publication. Only terminal values of the fence decide; a fence that is still open is
// closed by compare-and-swap first, and looked at again. Nothing is guessed: an effect that the remote does not show is
// unknown, and no time turns it into another. The error is for input that makes no sense. (A37, A40, A41, B28, B32)
func (r *Remote) Settle(ctx context.Context, in SettleInput) (Settlement, error) {
	ref, err := FenceRef(in.Run)
	if err == nil && in.Epoch < 1 {
		err = fmt.Errorf("epoch %d", in.Epoch)
	}
	if err == nil && in.Intent != nil {
		if err = in.Intent.validateRefs(); err == nil && (in.Intent.Run != in.Run || in.Waived != (in.Intent.Fence.Value == "")) {
			err = fmt.Errorf("the intent is not the run's")
		}
	}
	if err != nil {
		return Settlement{}, evidence.Fail(evidence.StageReconcile, evidence.CodeUnclassified, in.Run, fmt.Errorf("settling: %w", err))
	}
	var why error
	for range settleAttempts {
		adv, err := r.advertise(ctx, receivePack)
		if err != nil {
			return unknown(ReasonRemoteSilent, Observation{}, err), nil
		}
		o := Observation{Fence: adv.Refs[ref], Branch: adv.Refs[in.TargetRef], Commit: Missing}
		switch {
		case in.Intent != nil:
			o = r.see(ctx, *in.Intent, adv)
		case in.RecordLost:
			if s, decided := r.judgeLost(ctx, in, o, adv); decided {
				return s, nil
			}
		}
		s, open := r.judge(ctx, in, o, adv)
		if !open {
			return s, nil
		}
		answer, err := r.closeFence(ctx, in.Run, o.Fence, in.Epoch)
		if err != nil {
			return unknown(ReasonFenceStuck, o, err), nil
		}
		why = answer.Fault()
	}
	return unknown(ReasonFenceStuck, Observation{}, why), nil
}

// judge applies the rules to one look at the remote. open says that the fence decides nothing yet and may be closed.
func (r *Remote) judge(ctx context.Context, in SettleInput, o Observation, adv Advertisement) (s Settlement, open bool) {
	switch {
	case in.Waived && in.Intent == nil:
		return settled(evidence.EffectNotApplied, ReasonTombstoned, o), false
	case in.Waived:
		return judgeWaived(*in.Intent, o), false
	case in.Intent != nil && o.Fence == in.Intent.Commit:
		return judgeDone(*in.Intent, o), false
	case isTombstone(in.Run, in.Epoch, o.Fence):
		return judgeClosed(in.Intent, o), false
	case o.Fence == "" && in.Intent == nil || slices.Contains(in.Fences, o.Fence):
		return Settlement{}, true
	case o.Fence == "" && o.Commit == Present:
		return settled(evidence.EffectConfirmed, ReasonBranchHolds, o), false
	case o.Fence == "":
		return unknown(ReasonFenceAbsent, o, o.Why), false
	}
	what, found, err := r.identify(ctx, in.Run, in.Epoch, o.Fence)
	switch {
	case what == landed && in.Intent == nil && found.Profile == in.Profile:
		return r.judgeFound(ctx, in, *found, adv), false
	case what == openFence:
		return Settlement{}, true
	case what == closedTomb:
		return judgeClosed(in.Intent, o), false
	case o.Commit == Present:
		return settled(evidence.EffectConfirmed, ReasonBranchHolds, o), false
	}
	return unknown(ReasonFenceForeign, o, err), false
}

// judgeDone: the fence holds the commit, so the publication was accepted, at least in part.
func judgeDone(in Intent, o Observation) Settlement {
	switch {
	case o.Commit == Present:
		return settled(evidence.EffectConfirmed, ReasonBranchHolds, o)
	case o.Branch == in.Old:
		return settled(evidence.EffectPartial, ReasonBranchUnmoved, o)
	case o.Commit == Unseen:
		// Held or displaced, it was confirmed; which of the two stays open.
		s := settled(evidence.EffectConfirmed, ReasonHistoryUnread, o)
		s.Why = o.Why
		return s
	default:
		s := settled(evidence.EffectConfirmed, ReasonDisplaced, o)
		s.Displaced = true
		return s
	}
}

// judgeClosed: the fence is a tombstone, so nothing can land any more.
func judgeClosed(in *Intent, o Observation) Settlement {
	switch {
	case o.Commit == Present:
		return settled(evidence.EffectConfirmed, ReasonBranchHolds, o)
	case o.Commit == Unseen:
		return unknown(ReasonHistoryUnread, o, o.Why)
	}
	s := settled(evidence.EffectNotApplied, ReasonTombstoned, o)
	if in != nil {
		s.Code = evidence.CodePublicationRefused
		if o.Branch != in.Old {
			s.Code = evidence.CodeBaselineMoved
		}
	}
	return s
}

// judgeWaived: without a fence the branch alone speaks, and only once it has left the old value for good.
func judgeWaived(in Intent, o Observation) Settlement {
	switch {
	case o.Commit == Present:
		return settled(evidence.EffectConfirmed, ReasonBranchHolds, o)
	case o.Branch == in.Old:
		return unknown(ReasonBranchUnmoved, o, nil)
	case o.Commit == Unseen:
		return unknown(ReasonHistoryUnread, o, o.Why)
	case !o.descends:
		return unknown(ReasonBranchReplaced, o, nil)
	}
	s := settled(evidence.EffectNotApplied, ReasonBranchMovedOn, o)
	s.Code = evidence.CodeBaselineMoved
	return s
}

func settled(effect evidence.Effect, reason Reason, o Observation) Settlement {
	s := Settlement{Effect: effect, Reason: reason, Fence: o.Fence, Branch: o.Branch}
	if effect == evidence.EffectPartial {
		s.Code = evidence.CodePublicationPartial
	}
	return s
}

func unknown(reason Reason, o Observation, why error) Settlement {
	s := settled(evidence.EffectUnknown, reason, o)
	s.Code, s.Why = evidence.CodeSettleUnknown, why
	if reason == ReasonFenceForeign {
		s.Code = evidence.CodeFenceConflict
	}
	return s
}
