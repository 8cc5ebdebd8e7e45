package harness

import (
	"context"
	"errors"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/profiles"
	"github.com/rein-aharness/harness/queue"
	"github.com/rein-aharness/harness/queue/admission"
)

// resolve finds exactly the constellation that was pinned, or refuses. Nothing is chosen here: every part is compared. (A2, A3, A4)
func (x *execution) resolve(ctx context.Context) error {
	resolution, contract, err := x.h.resolve(ctx, x.run)
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

// resolve reads the contract of a run against its digests and row, and the profile it pins as it may be used now on this engine.
func (h *Harness) resolve(ctx context.Context, run queue.Run) (profiles.Resolution, queue.Contract, error) {
	contract, err := run.Contract()
	if err != nil {
		return profiles.Resolution{}, queue.Contract{}, err
	}
	ref, err := profiles.ParseRef(contract.Request.Profile)
	if err != nil {
		return profiles.Resolution{}, queue.Contract{}, err
	}
	if err := rowAgrees(run, contract, ref); err != nil {
		return profiles.Resolution{}, queue.Contract{}, err
	}
	resolution, err := h.profiles.Resolve(ctx, profiles.Selection{
		Ref: ref, Pins: parts(contract.Pins), Actor: evidence.ActorAgent, Engine: h.config.Engine.Name, Run: run.ID,
		Proof: contract.Request.Proof != "",
	}, h.now())
	return resolution, contract, err
}

// rowAgrees compares the columns that the queue goes by with the contract that the evidence goes by.
func rowAgrees(run queue.Run, contract queue.Contract, ref profiles.Ref) error {
	for _, pin := range []struct{ name, row, contract string }{
		{"repository", run.Repository, contract.Pins.Repository},
		{"baseline", run.Baseline, contract.Pins.Baseline},
		{"base_ref", run.BaseRef, contract.Request.BaseRef},
		{"target_ref", run.TargetRef, contract.Request.TargetRef},
		{"profile", run.Profile, ref.Revision()},
		{"profile", run.ProfileDigest, ref.Digest},
		{"profile", run.ProfileDigest, contract.Pins.Profile},
		{"proof", run.Proof, contract.Request.Proof},
		{"request", run.RequestDigest, contract.RequestDigest},
	} {
		if pin.row != pin.contract {
			return evidence.Fail(evidence.StageResolve, evidence.CodePinMismatch, pin.name,
				errors.New("the run's row and its contract differ"))
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

// recheck resolves the run again from what the database says now, right before acceptance: the row, the contract and the profile
// must be what they were. (A3, B25)
func (x *execution) recheck(ctx context.Context) error {
	now, err := x.h.store.Run(ctx, x.run.ID)
	if err != nil {
		return err
	}
	if now.ContractDigest != x.run.ContractDigest {
		return evidence.Fail(evidence.StageAccept, evidence.CodePinMismatch, "contract", errors.New("the contract was replaced during the session"))
	}
	resolution, contract, err := x.h.resolve(ctx, now)
	if err != nil {
		return err
	}
	if contract.Pins != x.contract.Pins || resolution.Pins != parts(x.contract.Pins) {
		return evidence.Fail(evidence.StageAccept, evidence.CodePinMismatch, "profile", errors.New("the profile was replaced during the session"))
	}
	return nil
}

// parts are the pins that a profile has.
func parts(p queue.Pins) profiles.Pins {
	return profiles.Pins{
		Profile: p.Profile, Rein: p.Rein, Model: p.Model, Tools: p.Tools, Sandbox: p.Sandbox, Credentials: p.Credentials,
	}
}
