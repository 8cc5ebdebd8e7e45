package repotx

import (
	"context"
	"fmt"
	"time"

	"github.com/rein-aharness/harness/evidence"
)

// converse opens one conversation, bounded in time, and closes it and its connections when use has returned.
func (r *Remote) converse(ctx context.Context, timeout time.Duration, svc service, use func(context.Context, conversation) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("the remote took longer than %s", timeout))
	defer cancel()
	t, err := newTransport(r.repo, r.auth)
	if err != nil {
		return denied(err)
	}
	defer t.close()
	c, err := t.open(ctx, svc)
	if err != nil {
		return err
	}
	defer c.close()
	if err := use(ctx, c); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("%w (%w)", err, context.Cause(ctx))
		}
		return err
	}
	return nil
}

func (r *Remote) advertise(ctx context.Context, svc service) (Advertisement, error) {
	var adv Advertisement
	err := r.converse(ctx, r.store.config.Timeout, svc, func(_ context.Context, c conversation) (err error) {
		adv, err = c.advertisement(maxAdvertisementBytes)
		return err
	})
	return adv, err
}

// Advertise asks the push side of the remote, with the credential of this Remote, for its refs and capabilities. Mirrors
// and replicas may lag behind; the push side is what decides. (A41)
func (r *Remote) Advertise(ctx context.Context) (Advertisement, error) {
	adv, err := r.advertise(ctx, receivePack)
	if err != nil {
		return Advertisement{}, classify(evidence.StagePreflight, r.repo.ID, err)
	}
	return adv, nil
}

// ResolveRef gives the commit that a branch points at. A remote without any branch is CodeRepositoryEmpty, one without this
// branch CodeBaselineUnresolved.
func (r *Remote) ResolveRef(ctx context.Context, ref string) (string, error) {
	if err := checkBranch(ref); err != nil {
		return "", evidence.Fail(evidence.StageEmit, evidence.CodeRefNotGranted, ref, err)
	}
	adv, err := r.advertise(ctx, uploadPack)
	if err != nil {
		return "", classify(evidence.StageEmit, r.repo.ID, err)
	}
	if len(adv.Refs) == 0 {
		return "", evidence.Fail(evidence.StageEmit, evidence.CodeRepositoryEmpty, r.repo.ID, nil)
	}
	hash, ok := adv.Refs[ref]
	if !ok {
		return "", evidence.Fail(evidence.StageEmit, evidence.CodeBaselineUnresolved, ref, nil)
	}
	return hash, nil
}
