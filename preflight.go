package harness

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/internal/failpoint"
	"github.com/rein-aharness/harness/profiles"
	"github.com/rein-aharness/harness/queue"
	"github.com/rein-aharness/harness/rein/credential"
	"github.com/rein-aharness/harness/repotx"
)

// preflight commits the start, and only then makes the first call that changes something: it takes the publish credential, sees
// what the remote can do and where it stands, fetches the baseline, and intersects what definition, profile and manifest
// allow. The fence is created beside the sandbox. (A11, A33, B35)
func (x *execution) preflight(ctx context.Context) error {
	if err := x.lease.Start(ctx); err != nil {
		return err
	}
	x.started = true
	if err := failpoint.Hit(failpoint.PreflightStarted); err != nil {
		return err
	}
	if err := x.openRemote(ctx); err != nil {
		return err
	}
	adv, err := x.remote.Advertise(ctx)
	if err != nil {
		return err
	}
	fact := evidence.Preflighted{
		Capabilities: slices.Sorted(maps.Keys(adv.Capabilities)), Fencing: "fence", PublishRoute: x.profile.Publish.Revision,
		BaseValue: adv.Refs[x.run.BaseRef], TargetValue: adv.Refs[x.run.TargetRef], Manifest: "found",
	}
	if err := x.checkRemote(ctx, adv, &fact); err != nil {
		return err
	}
	if !x.waived {
		x.fence, err = repotx.NewFence(repotx.FenceID{Run: x.run.ID, Epoch: x.lease.Epoch(), Owner: x.lease.Owner()}, x.run.Baseline)
		if err != nil {
			return err
		}
		fact.FenceRef, fact.FenceValue = x.fence.Ref, x.fence.Value
	}
	if x.baseline, err = x.remote.Fetch(ctx, x.run.Baseline); err != nil {
		return err
	}
	if err := x.intersect(ctx, &fact); err != nil {
		return err
	}
	return x.lease.Record(evidence.StagePreflight, evidence.SourceObserved, fact)
}

// openRemote takes the publish credential on a token of its own, which stays in the worker. (A30)
func (x *execution) openRemote(ctx context.Context) (err error) {
	x.publish, x.remote, err = x.h.openRemote(ctx, x.lease, credential.PurposePublish, x.contract, x.profile.Publish)
	return err
}

func (h *Harness) openRemote(ctx context.Context, lease *queue.Lease, purpose credential.Purpose, contract queue.Contract,
	route credential.PublishRoute,
) (*credential.Session, *repotx.Remote, error) {
	repository, err := repotx.Canonical(contract.Request.Repository)
	if err != nil {
		return nil, nil, err
	}
	holder := credential.Holder{Run: lease.Run().ID, Epoch: lease.Epoch(), Owner: lease.Owner(), Purpose: purpose}
	session, err := h.vault.Begin(ctx, holder, []string{route.Policy}, time.Duration(route.TTLSeconds)*time.Second, lease)
	if err != nil {
		return nil, nil, err
	}
	auth, err := session.Publish(ctx, route)
	if err != nil {
		return session, nil, err
	}
	return session, h.repos.Remote(repository, auth), nil
}

// checkRemote refuses a remote that cannot be fenced unless the definition waives that, a base that has moved on, and a target
// that is neither the base nor new. A successor first reads what its predecessor left. (A39, A47)
func (x *execution) checkRemote(ctx context.Context, adv repotx.Advertisement, fact *evidence.Preflighted) error {
	if err := adv.RequireFence(); err != nil {
		if !x.contract.Request.WaiveFencing {
			return err
		}
		fact.Fencing, x.waived = "waived", true
	}
	if adv.Refs[x.run.BaseRef] != x.run.Baseline {
		return evidence.Fail(evidence.StagePreflight, evidence.CodeBaselineMoved, x.run.BaseRef,
			fmt.Errorf("the base is at %s, the run stands on %s", adv.Refs[x.run.BaseRef], x.run.Baseline))
	}
	if x.run.TargetRef != x.run.BaseRef && adv.Refs[x.run.TargetRef] != "" {
		return evidence.Fail(evidence.StagePreflight, evidence.CodeBaselineMoved, x.run.TargetRef,
			errors.New("the target ref exists already"))
	}
	if x.run.Supersedes != "" {
		if err := x.checkPredecessor(ctx, adv); err != nil {
			return err
		}
	}
	return nil
}

// checkPredecessor refuses to go on where the superseded run's change may be on the remote after all.
func (x *execution) checkPredecessor(ctx context.Context, adv repotx.Advertisement) error {
	ref, err := repotx.FenceRef(x.run.Supersedes)
	if err != nil {
		return err
	}
	intent, found, err := x.h.store.Intent(ctx, x.run.Supersedes)
	if err != nil {
		return evidence.Fail(evidence.StagePreflight, evidence.CodeStoreFailed, x.run.Supersedes, err)
	}
	if found && (adv.Refs[ref] == intent.Commit || adv.Refs[intent.TargetRef] == intent.Commit) {
		return evidence.Fail(evidence.StagePreflight, evidence.CodeSuccessorNotAllowed, x.run.Supersedes,
			errors.New("the remote holds the commit of the superseded run"))
	}
	return nil
}

// intersect finds what the run may change, and says what the manifest had to do with it.
func (x *execution) intersect(ctx context.Context, fact *evidence.Preflighted) (err error) {
	x.allowance, fact.ManifestDigest, err = x.h.allow(ctx, x.baseline, x.contract, x.profile)
	if fact.ManifestDigest == "" {
		fact.Manifest = "waived"
	}
	return err
}

// allow intersects what definition, profile and the repository's own manifest allow. A missing manifest, whose digest is then empty,
// is waived for a person who watches, or by the deployment, and never where the profile requires it. (A33)
func (h *Harness) allow(ctx context.Context, baseline *repotx.Baseline, contract queue.Contract, profile *profiles.Profile,
) (allowance repotx.Allowance, manifestDigest string, err error) {
	manifest, digest, found, err := baseline.Manifest(ctx)
	if err != nil {
		return repotx.Allowance{}, "", err
	}
	if !found {
		waived := contract.Request.Attended || h.config.Policy.WaiveManifest
		if !waived || profile.Controls.Requires(profiles.ControlManifest) {
			return repotx.Allowance{}, "", evidence.Fail(evidence.StagePreflight, evidence.CodeManifestMissing, repotx.ManifestPath,
				errors.New("the repository does not say what may change in it: commit a manifest, or waive it in the deployment's policy"))
		}
		manifest = nil
	}
	allowance, err = repotx.Intersect(contract.Grant(), profile.Grant, manifest)
	return allowance, digest, err
}
