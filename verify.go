package harness

import (
	"context"
	"errors"
	"fmt"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/queue"
	"github.com/rein-aharness/harness/repotx"
)

// The checks that a deployment adds to those of evidence.VerifyOffline, in the order of its report.
const (
	CheckRow          = "row"           // what lists and views go by says what the evidence says
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
func (h *Harness) Trust() (evidence.Trust, error) {
	return evidence.LoadTrust(h.config.Signing.TrustFile)
}

// Record collects everything that is stored about a run, for its verification or export. Nothing in it is trusted.
func (h *Harness) Record(ctx context.Context, id string) (evidence.Record, error) {
	_, record, err := h.record(ctx, id)
	return record, err
}

func (h *Harness) record(ctx context.Context, id string) (queue.Run, evidence.Record, error) {
	run, err := h.store.Run(ctx, id)
	if err != nil {
		return queue.Run{}, evidence.Record{}, err
	}
	record := evidence.Record{Run: id, Envelope: run.Statement, Contract: run.ContractBytes}
	record.Facts, err = h.store.Facts(ctx, id)
	switch {
	case errors.Is(err, evidence.ErrFactMalformed):
		record.Unreadable = err // for the verification to say, as that there are none
	case err != nil && !errors.Is(err, queue.ErrNotFound):
		return queue.Run{}, evidence.Record{}, err
	}
	intent, found, err := h.store.Intent(ctx, id)
	if err != nil {
		return queue.Run{}, evidence.Record{}, err
	}
	if found {
		record.Pack, record.Commit = intent.Pack, intendedCommit(record.Facts, intent.Pack)
	}
	// A profile that is gone, or was replaced, is for the verification to say.
	record.Profile, err = h.profiles.Content(ctx, run.Profile)
	if err != nil && evidence.CodeOf(err) != evidence.CodeProfileUnknown {
		return queue.Run{}, evidence.Record{}, err
	}
	return run, record, nil
}

// intendedCommit takes the commit that the facts name from the stored pack. nil when it is not in there: then the pack is not the
// intended one, which the verification finds by its digest.
func intendedCommit(facts []evidence.Fact, pack []byte) []byte {
	intended, found, err := evidence.Last[evidence.Intended](facts)
	if err != nil || !found {
		return nil
	}
	content, err := repotx.CommitBytes(pack, intended.Commit)
	if err != nil {
		return nil
	}
	return content
}

// Verify recomputes everything about a run that can be recomputed: from the record and the trust file, from the run's row, and, if
// asked, from its remote as it is now. A later legitimate change does not invalidate it; one that contradicts it does. (A20, A35)
func (h *Harness) Verify(ctx context.Context, id string, options VerifyOptions) (evidence.Report, error) {
	run, record, err := h.record(ctx, id)
	if err != nil {
		return evidence.Report{}, err
	}
	report := evidence.VerifyOffline(record, options.Trust)
	report.Add(checkRow(run, record.Facts))
	if !options.Remote {
		return report, nil
	}
	return report, h.verifyRemote(ctx, run, record, &report)
}

// checkRow holds the run's row, which every list and view goes by, against the evidence.
func checkRow(run queue.Run, facts []evidence.Fact) evidence.Check {
	check := evidence.Check{Name: CheckRow, Scope: evidence.ScopeOffline, Result: evidence.ResultPass, Detail: "the run's row says what the evidence says"}
	if err := rowClosed(run, facts); err != nil {
		check.Result, check.Detail = evidence.ResultFail, err.Error()
	}
	return check
}

func rowClosed(run queue.Run, facts []evidence.Fact) error {
	if _, _, err := agreed(run, facts); err != nil {
		return err
	}
	closed, found, err := evidence.Last[evidence.Closed](facts)
	switch {
	case err != nil:
		return err
	case !found && !run.State.Final():
		return nil
	case !found:
		return errors.New("the run's row is final, and the evidence is not closed")
	}
	result, err := queue.DecodeResult(run.Result)
	if err != nil {
		return err
	}
	ended := closed.Stage
	if closed.State == evidence.StateCompleted {
		ended = ""
	}
	return compare("the run's row and its evidence differ", []stated{
		{"state", string(run.State), string(closed.State)},
		{"effect", string(run.Effect), string(closed.Effect)},
		{"stage", string(run.FailedStage), string(ended)},
		{"code", string(run.Code), string(closed.Code)},
		{"disposition", string(run.Disposition), string(closed.Disposition)},
		{"result", result.Run, run.ID},
		{"result", string(result.State), string(closed.State)},
		{"result", string(result.Effect), string(closed.Effect)},
		{"result", string(result.Code), string(closed.Code)},
		{"result", string(result.Disposition), string(closed.Disposition)},
	})
}

func (h *Harness) verifyRemote(ctx context.Context, run queue.Run, record evidence.Record, report *evidence.Report) error {
	add := func(name string, result evidence.Result, format string, args ...any) {
		report.Add(evidence.Check{Name: name, Scope: evidence.ScopeRemote, Result: result, Detail: fmt.Sprintf(format, args...)})
	}
	settled, intent, err := outcome(run, record.Facts)
	switch {
	case errors.Is(err, errNothingSettled):
		add(CheckRemoteFence, evidence.ResultNotEvaluated, "the run asked nothing of the remote")
		return nil
	case err != nil:
		add(CheckRemoteFence, evidence.ResultNotEvaluated, "the facts do not say what to look for: %v", err)
		return nil
	}
	// A credential is taken to no remote but the one that the run was emitted for.
	contract, profile, err := h.agreedProfile(ctx, run, record.Facts)
	var refused *evidence.Failure
	switch {
	case errors.As(err, &refused):
		add(CheckRemoteFence, evidence.ResultFail, "what is stored does not say which remote to ask: %v", err)
		return nil
	case err != nil:
		return err
	}
	repository, err := repotx.Canonical(contract.Request.Repository)
	if err != nil {
		return err
	}
	return h.withRemote(ctx, repository, profile.Publish, func(remote *repotx.Remote) error {
		fence, branch, err := remote.Compare(ctx, repotx.Claim{
			Run: run.ID, Effect: settled.Effect, Fence: settled.Fence, Displaced: settled.Displaced, Intent: intent,
		})
		if err != nil {
			return err
		}
		add(CheckRemoteFence, fence.Result, "%s", fence.Detail)
		add(CheckRemoteBranch, branch.Result, "%s", branch.Detail)
		return nil
	})
}

var errNothingSettled = errors.New("the run asked nothing of the remote")

// outcome is what the facts say the remote was left with, and of which change; nil when there was none.
func outcome(run queue.Run, facts []evidence.Fact) (evidence.Settled, *repotx.Intent, error) {
	settled, is, err := evidence.Last[evidence.Settled](facts)
	if err != nil {
		return evidence.Settled{}, nil, err
	}
	if !is {
		return evidence.Settled{}, nil, errNothingSettled
	}
	found, is, err := evidence.Last[evidence.Found](facts)
	if err != nil {
		return evidence.Settled{}, nil, err
	}
	if is {
		change := repotx.Found{Commit: found.Commit, Parent: found.Parent, Transaction: found.Transaction}
		intent := change.Intent(run.ID, run.TargetRef, run.BaseRef)
		return settled, &intent, nil
	}
	intended, is, err := evidence.Last[evidence.Intended](facts)
	if err != nil || !is {
		return settled, nil, err
	}
	return settled, &repotx.Intent{
		Run: run.ID, Transaction: intended.Transaction, TargetRef: intended.TargetRef, Old: intended.Old, BaseRef: intended.BaseRef,
		Base: intended.Baseline, Commit: intended.Commit, Fence: repotx.Fence{Ref: intended.FenceRef, Value: intended.FenceValue},
	}, nil
}
