package repotx

import (
	"context"
	"fmt"

	"github.com/rein-aharness/harness/evidence"
)

// Claim is what a run's evidence says that the remote was left with.
type Claim struct {
	Run    string
	Effect evidence.Effect
	// Fence is the value that the fence was settled with, "" when fencing was waived.
	Fence string
	// Displaced says that the branch was moved away from the commit before the run was settled.
	Displaced bool
	// Intent is what was to be published, without its pack; nil when nothing was.
	Intent *Intent
}

// Standing is how one ref stands to a claim. Result is pass when it matches, superseded when a later change went on from it,
// expired when retention has removed it, not_evaluated when it could not be seen, and fail when it contradicts.
type Standing struct {
	Result evidence.Result
	Detail string
}

// Compare looks at the remote as it is now, and says how its fence and branch stand to what the evidence claims. The error is for
// a remote that could not be asked. (A35, B45)
func (r *Remote) Compare(ctx context.Context, c Claim) (fence, branch Standing, err error) {
	ref, err := FenceRef(c.Run)
	if err != nil {
		return fence, branch, evidence.Fail(evidence.StageReconcile, evidence.CodeUnclassified, c.Run, err)
	}
	if c.Intent != nil {
		if err := c.Intent.validateRefs(); err != nil {
			return fence, branch, evidence.Fail(evidence.StageReconcile, evidence.CodeUnclassified, c.Run, err)
		}
	}
	adv, err := r.advertise(ctx, receivePack)
	if err != nil {
		return fence, branch, classify(evidence.StageReconcile, r.repo.ID, err)
	}
	o := Observation{Fence: adv.Refs[ref], Commit: Missing}
	if c.Intent != nil {
		o = r.see(ctx, *c.Intent, adv)
	}
	return compareFence(c, o), compareBranch(c, o), nil
}

func compareFence(c Claim, o Observation) Standing {
	switch {
	case c.Fence == "":
		return Standing{evidence.ResultNotEvaluated, "the run went without a fence"}
	case o.Fence == c.Fence:
		return Standing{evidence.ResultPass, "the fence matches"}
	case o.Fence == "":
		return Standing{evidence.ResultExpired, "the fence is gone: its retention has ended, or a third party deleted it"}
	default:
		return Standing{evidence.ResultFail, fmt.Sprintf("the fence is at %s and contradicts the evidence, which has %s", o.Fence, c.Fence)}
	}
}

func compareBranch(c Claim, o Observation) Standing {
	switch {
	case c.Intent == nil:
		return Standing{evidence.ResultNotEvaluated, "nothing was intended for the branch"}
	case o.Commit == Unseen:
		return Standing{evidence.ResultNotEvaluated, fmt.Sprintf("the branch's history could not be read: %v", o.Why)}
	case c.Effect == evidence.EffectConfirmed && o.Branch == c.Intent.Commit:
		return Standing{evidence.ResultPass, "the branch matches"}
	case c.Effect == evidence.EffectConfirmed && o.Commit == Present:
		return Standing{evidence.ResultSuperseded, "the branch went on from the commit"}
	case c.Effect == evidence.EffectConfirmed && c.Displaced:
		return Standing{evidence.ResultSuperseded, "the branch was moved away from the commit before the run was settled"}
	case c.Effect == evidence.EffectConfirmed:
		return Standing{evidence.ResultFail, "the branch contradicts the evidence: it does not hold the commit " + c.Intent.Commit}
	case o.Commit == Present:
		return Standing{evidence.ResultFail, "the branch contradicts the evidence: it holds the commit " + c.Intent.Commit}
	default:
		return Standing{evidence.ResultPass, "the branch does not hold the commit"}
	}
}
