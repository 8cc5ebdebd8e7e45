package harness

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/rein-aharness/harness/profiles"
	"github.com/rein-aharness/harness/queue"
	"github.com/rein-aharness/harness/rein/credential"
	"github.com/rein-aharness/harness/repotx"
)

// Emit makes a run of a request, or finds the one that its trigger key already has; created says which. Only a new trigger key is
// resolved: the profile to its published revision and the base ref to a commit of the remote. queueName is the queue of an attended
// run's own process. (A9, A12, A15)
func (h *Harness) Emit(ctx context.Context, r queue.Request, queueName string) (run queue.Run, created bool, err error) {
	return h.store.Emit(ctx, r, queue.Emission{
		Pin: func(ctx context.Context) (queue.Pins, error) {
			pins, _, err := h.pin(ctx, r, nil)
			return pins, err
		},
		Queue: queueName,
	})
}

// emitScheduled makes the run of a tick of a schedule.
func (h *Harness) emitScheduled(ctx context.Context, t queue.Scheduled) (queue.Run, error) {
	request, err := t.Request()
	if err != nil {
		return queue.Run{}, err
	}
	run, _, err := h.Emit(ctx, request, "")
	return run, err
}

// Preview is what a request would be pinned to, and whether a run of it could start now on this deployment's engine.
type Preview struct {
	Pins      queue.Pins     `json:"pins"`
	Readiness profiles.State `json:"readiness"`
	// Refusal is what a run would be refused with; nil when nothing speaks against it.
	Refusal error `json:"-"`
}

// Preview resolves a request and checks it against its profile's readiness and the remote's capabilities and manifest. It emits
// nothing and changes nothing; its Vault token is revoked.
func (h *Harness) Preview(ctx context.Context, r queue.Request) (Preview, error) {
	if err := r.Validate(); err != nil {
		return Preview{}, err
	}
	var p Preview
	pins, profile, err := h.pin(ctx, r, func(ctx context.Context, remote *repotx.Remote, pins queue.Pins, profile *profiles.Profile) error {
		p.Refusal = h.previewRemote(ctx, r, remote, pins, profile)
		return nil
	})
	if err != nil {
		return Preview{}, err
	}
	p.Pins = pins
	ref, err := profile.Ref()
	if err != nil {
		return Preview{}, err
	}
	state, reason, err := h.profiles.Standing(ctx, h.config.Engine.Name, ref.Digest, h.store.Now())
	if err != nil {
		return Preview{}, err
	}
	p.Readiness = state
	p.Refusal = errors.Join(p.Refusal, profiles.Refusal(ref, state, reason, r.Proof != ""))
	return p, nil
}

func (h *Harness) previewRemote(ctx context.Context, r queue.Request, remote *repotx.Remote, pins queue.Pins, profile *profiles.Profile) error {
	adv, err := remote.Advertise(ctx)
	if err != nil {
		return err
	}
	if err := adv.RequireFence(); err != nil && !r.WaiveFencing {
		return err
	}
	baseline, err := remote.Fetch(ctx, pins.Baseline)
	if err != nil {
		return err
	}
	_, _, err = h.allow(ctx, baseline, queue.Contract{Request: r, Pins: pins}, profile)
	return errors.Join(err, baseline.Close())
}

// pin resolves a request to what it names exactly, with a credential of its own that is given back at once. also, if not nil, is
// called with the remote before that.
func (h *Harness) pin(ctx context.Context, r queue.Request,
	also func(context.Context, *repotx.Remote, queue.Pins, *profiles.Profile) error,
) (queue.Pins, *profiles.Profile, error) {
	ref, err := profiles.ParseRef(r.Profile)
	if err != nil {
		return queue.Pins{}, nil, err
	}
	profile, _, err := h.profiles.Get(ctx, ref)
	if err != nil {
		return queue.Pins{}, nil, err
	}
	repository, err := repotx.Canonical(r.Repository)
	if err != nil {
		return queue.Pins{}, nil, err
	}
	parts, err := profile.Pins()
	if err != nil {
		return queue.Pins{}, nil, err
	}
	pins := queue.Pins{
		Repository: repository.ID, Profile: parts.Profile, Rein: parts.Rein, Model: parts.Model, Tools: parts.Tools,
		Sandbox: parts.Sandbox, Credentials: parts.Credentials,
	}
	err = h.withRemote(ctx, repository, profile.Publish, func(remote *repotx.Remote) (err error) {
		if pins.Baseline, err = remote.ResolveRef(ctx, r.BaseRef); err != nil {
			return err
		}
		if also == nil {
			return nil
		}
		return also(ctx, remote, pins, profile)
	})
	return pins, profile, err
}

// remoteWithin bounds the life of a credential that is taken for one look at a remote.
const remoteWithin = 2 * time.Minute

// withRemote reaches a remote outside of any run, with a token that the ledger knows and that is revoked before it returns.
func (h *Harness) withRemote(ctx context.Context, repository repotx.Repository, route credential.PublishRoute, use func(*repotx.Remote) error) (err error) {
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("make an id: %w", err)
	}
	ttl := min(remoteWithin, time.Duration(route.TTLSeconds)*time.Second)
	holder := credential.Holder{Run: id.String(), Owner: h.owner(), Purpose: credential.PurposeCheck}
	session, err := h.vault.Begin(ctx, holder, []string{route.Policy}, ttl, h.store)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, giveBack(ctx, session)) }()
	auth, err := session.Publish(ctx, route)
	if err != nil {
		return err
	}
	return use(h.repos.Remote(repository, auth))
}

// owner names this process, as its leases do.
func (h *Harness) owner() string { return h.config.Worker.ID + "/" + h.nonce }
