package harness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/profiles"
	"github.com/rein-aharness/harness/queue"
	"github.com/rein-aharness/harness/queue/admission"
)

// resolve finds exactly the constellation that was pinned, or refuses. Nothing is chosen here: every part is compared. (A2, A3, A4)
func (x *execution) resolve(ctx context.Context) error {
	resolution, contract, err := x.h.resolve(ctx, x.run, x.lease.Facts())
	if err != nil {
		return err
	}
	x.contract, x.profile = contract, resolution.Profile
	pins := resolution.Pins.Map()
	pins["repository"], pins["baseline"] = contract.Pins.Repository, contract.Pins.Baseline
	return x.lease.Record(evidence.StageResolve, evidence.SourceObserved, evidence.Resolved{
		Profile: resolution.Profile.Revision(), ProfileDigest: contract.Pins.Profile, Pins: pins,
		Readiness: string(resolution.State), Proof: resolution.Proof,
	})
}

// resolve reads the contract of a run, and the profile it pins as it may be used now on this engine.
func (h *Harness) resolve(ctx context.Context, run queue.Run, facts []evidence.Fact) (profiles.Resolution, queue.Contract, error) {
	contract, ref, err := agreed(run, facts)
	if err != nil {
		return profiles.Resolution{}, queue.Contract{}, err
	}
	resolution, err := h.profiles.Resolve(ctx, profiles.Selection{
		Ref: ref, Pins: parts(contract.Pins), Actor: evidence.ActorAgent, Engine: h.config.Engine.Name, Run: run.ID,
		Proof: contract.Request.Proof != "",
	}, h.store.Now())
	var refused *evidence.Failure
	if err != nil && !errors.As(err, &refused) {
		err = evidence.Fail(evidence.StageResolve, evidence.CodeStoreFailed, "profiles", err) // it decides nothing
	}
	return resolution, contract, err
}

// agreed reads the contract of a run and the profile it names, if everything that is stored about them says the same: the contract
// by its digests, the columns that the queue goes by, and the emission as the evidence has it. No one of them can be exchanged
// without the others. (A3)
func agreed(run queue.Run, facts []evidence.Fact) (queue.Contract, profiles.Ref, error) {
	contract, err := run.Contract()
	if err != nil {
		return queue.Contract{}, profiles.Ref{}, err
	}
	ref, err := profiles.ParseRef(contract.Request.Profile)
	if err != nil {
		return queue.Contract{}, profiles.Ref{}, err
	}
	if err := rowAgrees(run, contract, ref); err != nil {
		return queue.Contract{}, profiles.Ref{}, err
	}
	return contract, ref, emissionAgrees(run, facts)
}

// stated is one thing that is said in two places.
type stated struct{ name, here, there string }

// rowAgrees compares the columns that the queue goes by with the contract that the evidence goes by.
func rowAgrees(run queue.Run, contract queue.Contract, ref profiles.Ref) error {
	r := contract.Request
	return compare("the run's row and its contract differ", []stated{
		{"repository", run.Repository, contract.Pins.Repository},
		{"baseline", run.Baseline, contract.Pins.Baseline},
		{"base_ref", run.BaseRef, r.BaseRef},
		{"target_ref", run.TargetRef, r.TargetRef},
		{"profile", run.Profile, ref.Revision()},
		{"profile", run.ProfileDigest, ref.Digest},
		{"profile", run.ProfileDigest, contract.Pins.Profile},
		{"proof", run.Proof, r.Proof},
		{"attended", fmt.Sprint(run.Attended), fmt.Sprint(r.Attended)},
		{"operator", run.Operator, r.Operator},
		{"supersedes", run.Supersedes, r.Supersedes},
		{"definition", run.Definition, r.Definition},
		{"trigger_key", run.TriggerKey, r.TriggerKey},
		{"operation_key", run.OperationKey, cmp.Or(r.OperationKey, r.TriggerKey)},
		{"request", run.RequestDigest, contract.RequestDigest},
	})
}

// emissionAgrees compares the run's row with the first fact of its evidence, which every later fact is bound to.
func emissionAgrees(run queue.Run, facts []evidence.Fact) error {
	emitted, found, err := evidence.First[evidence.Emitted](facts)
	if err != nil {
		return evidence.Fail(evidence.StageResolve, evidence.CodePinMismatch, "emission", err)
	}
	if !found {
		return evidence.Fail(evidence.StageResolve, evidence.CodePinMismatch, "emission", errors.New("there is no evidence of the emission"))
	}
	return compare("the run's row and the evidence of its emission differ", []stated{
		{"repository", run.Repository, emitted.Repository},
		{"baseline", run.Baseline, emitted.Baseline},
		{"profile", run.ProfileDigest, emitted.ProfileDigest},
		{"request", run.RequestDigest, emitted.RequestDigest},
		{"contract", run.ContractDigest, emitted.ContractDigest},
	})
}

func compare(differ string, pairs []stated) error {
	for _, p := range pairs {
		if p.here != p.there {
			return evidence.Fail(evidence.StageResolve, evidence.CodePinMismatch, p.name, errors.New(differ))
		}
	}
	return nil
}

// admit asks the decision engine, and then the engine that is to run the session whether it could. Nothing is created. (A4, A8, A11)
func (x *execution) admit(ctx context.Context) error {
	decision, err := admission.Decide(admission.Input{
		Actor: evidence.ActorAgent, Contract: x.run.ContractDigest, Repository: x.contract.Pins.Repository,
		Grant: x.contract.Grant(), Profile: x.profile.Grant, Proof: x.contract.Request.Proof,
		WaivesFencing: x.contract.Request.WaiveFencing, WaivesManifest: x.h.config.Policy.WaiveManifest,
		RequiresFencing:  x.profile.Controls.Requires(profiles.ControlFencing),
		RequiresManifest: x.profile.Controls.Requires(profiles.ControlManifest),
	})
	if err != nil {
		return err
	}
	err = x.lease.Record(evidence.StageAdmit, evidence.SourceObserved, evidence.Admitted{
		Outcome: string(decision.Outcome), Reasons: decision.Reasons, DecisionID: decision.ID,
	})
	if err != nil {
		return err
	}
	if err := decision.Err(); err != nil {
		return err
	}
	return x.h.venue.Check(ctx, x.profile.Sandbox)
}

// recheck resolves the run again from what the database says now: right before the first thing is created for it, and right before
// acceptance. The row, the contract and the profile must be what they were; a refusal belongs to the stage that asks. A database
// that does not answer decides nothing, and is asked again for as long as a lease lasts. (A3, A43, B25)
func (x *execution) recheck(ctx context.Context, stage evidence.Stage) error {
	asking, cancel := context.WithTimeout(ctx, x.h.config.Lease.TTL())
	defer cancel()
	for {
		err := x.unchanged(ctx)
		var f *evidence.Failure
		if !errors.As(err, &f) {
			return err
		}
		if f.Code != evidence.CodeStoreFailed || asking.Err() != nil {
			return evidence.Fail(stage, f.Code, f.Subject, err)
		}
		select {
		case <-asking.Done():
		case <-time.After(recheckPause):
		}
	}
}

// recheckPause is how long a database that did not answer is left alone.
const recheckPause = 500 * time.Millisecond

func (x *execution) unchanged(ctx context.Context) error {
	now, err := x.h.store.Run(ctx, x.run.ID)
	if err != nil {
		return evidence.Fail(evidence.StageResolve, evidence.CodeStoreFailed, "run", err)
	}
	resolution, contract, err := x.h.resolve(ctx, now, x.lease.Facts())
	if err != nil {
		return err
	}
	if contract.Pins != x.contract.Pins || resolution.Pins != parts(x.contract.Pins) {
		return evidence.Fail(evidence.StageResolve, evidence.CodePinMismatch, "contract", errors.New("it was replaced since the claim"))
	}
	return nil
}

// parts are the pins that a profile has.
func parts(p queue.Pins) profiles.Pins {
	return profiles.Pins{
		Profile: p.Profile, Rein: p.Rein, Model: p.Model, Tools: p.Tools, Sandbox: p.Sandbox, Credentials: p.Credentials,
	}
}
