package harness

import (
	"context"
	"errors"
	"fmt"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/profiles"
	"github.com/rein-aharness/harness/repotx"
)

// The remote checks of a verification, in the order of its report.
const (
	CheckRemoteFence  = "remote_fence"  // the run's fence says what the evidence says
	CheckRemoteBranch = "remote_branch" // the branch holds the accepted commit, or went on from it
)

// VerifyOptions say how far a verification goes.
type VerifyOptions struct {
	Trust evidence.Trust
	// Remote asks the run's remote, with a credential of its own.
	Remote bool
}

// Trust reads the deployment's trust file.
func (h *Harness) Trust() (evidence.Trust, error) { return evidence.LoadTrust(h.config.Signing.TrustFile) }

// Record collects everything that is stored about a run, for its verification or export. Nothing in it is trusted.
func (h *Harness) Record(ctx context.Context, id string) (evidence.Record, error) {
	run, err := h.store.Run(ctx, id)
	if err != nil {
		return evidence.Record{}, err
	}
	facts, err := h.store.Facts(ctx, id)
	if err != nil {
		return evidence.Record{}, err
	}
	record := evidence.Record{Run: id, Facts: facts, Envelope: run.Statement, Contract: run.ContractBytes}
	intent, found, err := h.store.Intent(ctx, id)
	if err != nil {
		return evidence.Record{}, err
	}
	if found {
		record.Pack = intent.Pack
		if record.Commit, err = repotx.CommitBytes(intent.Pack, intent.Commit); err != nil {
			return evidence.Record{}, err
		}
	}
	// A profile that is gone, or was replaced, is for the verification to say.
	record.Profile, err = h.profiles.Content(ctx, run.Profile)
	if err != nil && evidence.CodeOf(err) != evidence.CodeProfileUnknown {
		return evidence.Record{}, err
	}
	return record, nil
}

// Verify recomputes everything about a run that can be recomputed: from the record and the trust file alone, and, if asked, from
// its remote as it is now. A later legitimate change does not invalidate it; one that contradicts it does. (A20, A35)
func (h *Harness) Verify(ctx context.Context, id string, options VerifyOptions) (evidence.Report, error) {
	record, err := h.Record(ctx, id)
	if err != nil {
		return evidence.Report{}, err
	}
	report := evidence.VerifyOffline(record, options.Trust)
	if !options.Remote {
		return report, nil
	}
	return report, h.verifyRemote(ctx, record, &report)
}

func (h *Harness) verifyRemote(ctx context.Context, record evidence.Record, report *evidence.Report) error {
	add := func(name string, result evidence.Result, format string, args ...any) {
		report.Add(evidence.Check{Name: name, Scope: evidence.ScopeRemote, Result: result, Detail: fmt.Sprintf(format, args...)})
	}
	settled, intended, err := outcome(record.Facts)
	switch {
	case errors.Is(err, errNothingSettled):
		add(CheckRemoteFence, evidence.ResultNotEvaluated, "the run asked nothing of the remote")
		return nil
	case err != nil:
		add(CheckRemoteFence, evidence.ResultNotEvaluated, "the facts do not say what to look for: %v", err)
		return nil
	}
	run, err := h.store.Run(ctx, record.Run)
	if err != nil {
		return err
	}
	contract, err := run.Contract()
	if err != nil {
		add(CheckRemoteFence, evidence.ResultFail, "the stored contract is not the run's: %v", err)
		return nil
	}
	ref, err := profiles.ParseRef(contract.Request.Profile)
	if err != nil {
		return err
	}
	profile, _, err := h.profiles.Get(ctx, ref)
	if err != nil {
		add(CheckRemoteFence, evidence.ResultFail, "the profile that names the publish route is not the pinned one: %v", err)
		return nil
	}
	repository, err := repotx.Canonical(contract.Request.Repository)
	if err != nil {
		return err
	}
	return h.withRemote(ctx, repository, profile.Publish, func(remote *repotx.Remote) error {
		fence, branch, err := remote.Compare(ctx, claim(record.Run, settled, intended))
		if err != nil {
			return err
		}
		add(CheckRemoteFence, fence.Result, "%s", fence.Detail)
		add(CheckRemoteBranch, branch.Result, "%s", branch.Detail)
		return nil
	})
}

// claim is what the evidence says that the remote was left with.
func claim(run string, settled evidence.Settled, intended *evidence.Intended) repotx.Claim {
	c := repotx.Claim{Run: run, Effect: settled.Effect, Fence: settled.Fence, Displaced: settled.Displaced}
	if intended == nil {
		return c
	}
	c.Intent = &repotx.Intent{
		Run: run, Transaction: intended.Transaction, TargetRef: intended.TargetRef, Old: intended.Old, BaseRef: intended.BaseRef,
		Base: intended.Baseline, Commit: intended.Commit, Fence: repotx.Fence{Ref: intended.FenceRef, Value: intended.FenceValue},
	}
	return c
}

var errNothingSettled = errors.New("the run asked nothing of the remote")

// outcome is what the facts say the remote was left with.
func outcome(facts []evidence.Fact) (evidence.Settled, *evidence.Intended, error) {
	settled, found, err := evidence.Last[evidence.Settled](facts)
	if err != nil {
		return evidence.Settled{}, nil, err
	}
	if !found {
		return evidence.Settled{}, nil, errNothingSettled
	}
	intended, found, err := evidence.Last[evidence.Intended](facts)
	if err != nil {
		return evidence.Settled{}, nil, err
	}
	if !found {
		return settled, nil, nil
	}
	return settled, &intended, nil
}
