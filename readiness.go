package harness

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/profiles"
	"github.com/rein-aharness/harness/rein"
	"github.com/rein-aharness/harness/repotx"
	"github.com/rein-aharness/harness/sandbox"
)

// CheckOptions say what a readiness check looks at beside the profile itself.
type CheckOptions struct {
	// Repository is the URL of a remote that runs with the profile are for. Its capabilities are part of the chain. Required.
	Repository string
	// Valid is how long the check vouches for the profile. Default a day, at most profiles.MaxReadiness.
	Valid time.Duration
}

// CheckProfile exercises every link that a run with the profile depends on, on this deployment's engine, and records what it
// found: ready when every link holds, and otherwise unverified with the broken links named. A mark that an operator set is not
// touched by it. (A6, A7)
func (h *Harness) CheckProfile(ctx context.Context, ref profiles.Ref, options CheckOptions) (profiles.Readiness, error) {
	if options.Valid == 0 {
		options.Valid = 24 * time.Hour
	}
	profile, _, err := h.profiles.Get(ctx, ref)
	if err != nil {
		return profiles.Readiness{}, err
	}
	now := h.store.Now()
	record := profiles.Readiness{
		Engine: h.config.Engine.Name, Digest: ref.Digest, State: profiles.StateReady, Reason: "every link of the chain holds",
		CheckedAt: now, ExpiresAt: now.Add(options.Valid),
	}
	var broken []string
	for _, link := range h.links(profile, options) {
		detail, err := link.check(ctx)
		entry := profiles.Link{Name: link.name, OK: err == nil, Detail: detail}
		if err != nil {
			entry.Detail = evidence.Clean(err.Error(), 512)
			broken = append(broken, link.name)
		}
		record.Links = append(record.Links, entry)
	}
	if len(broken) > 0 {
		record.State, record.Reason = profiles.StateUnverified, "broken: "+strings.Join(broken, ", ")
	}
	return record, h.profiles.SetReadiness(ctx, record)
}

// link is one link of the chain and how it is shown to hold.
type link struct {
	name  string
	check func(context.Context) (detail string, err error)
}

func (h *Harness) links(p *profiles.Profile, options CheckOptions) []link {
	links := []link{
		{"queue", h.checkQueue},
		{"runtime and image", func(ctx context.Context) (string, error) { return p.Sandbox.Image, h.venue.Check(ctx, p.Sandbox) }},
		{"isolation", func(ctx context.Context) (string, error) { return h.probe(ctx, p) }},
	}
	for _, route := range p.Credentials {
		links = append(links, link{"route " + route.Revision, func(ctx context.Context) (string, error) {
			return route.Path, h.vault.CheckRoute(ctx, h.owner(), route)
		}})
	}
	return append(links,
		link{"route " + p.Publish.Revision, func(ctx context.Context) (string, error) {
			return p.Publish.Path, h.vault.CheckPublishRoute(ctx, h.owner(), p.Publish)
		}},
		link{"signing", func(ctx context.Context) (string, error) {
			return h.config.Signing.Path, h.vault.CheckSigningRoute(ctx, h.owner(), h.config.Signing.route())
		}},
		link{"remote", func(ctx context.Context) (string, error) { return h.checkRemote(ctx, p, options.Repository) }},
		link{"model route", func(context.Context) (string, error) { return h.checkModel(p) }},
	)
}

func (h *Harness) checkQueue(ctx context.Context) (string, error) {
	control, err := h.store.Control(ctx)
	if err != nil {
		return "", err
	}
	if control.Replaced() {
		return "", errors.New("the database is not the one it was: adopt it with `harness doctor --adopt`")
	}
	return "the schema is current", nil
}

// probePrefix begins the name under which a probe's sandbox runs, in place of a run's id. No run has it, and no lease: only its
// expiry ends a probe that was left behind.
const probePrefix = "check-"

// probe starts a real sandbox of the profile, which compares the declared isolation with what is observed inside, and ends it. A
// TTL of its own keeps a check that is killed from leaving one behind.
func (h *Harness) probe(ctx context.Context, p *profiles.Profile) (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("make an id: %w", err)
	}
	box, err := h.venue.Create(ctx, p.Sandbox, sandbox.Identity{
		Run: probePrefix + id.String(), Epoch: 1, Owner: h.owner(), Actor: evidence.ActorAgent, ExpiresAt: h.store.Now().Add(time.Minute),
	})
	if err != nil {
		return "", err
	}
	seen := box.Evidence()
	gone, err := box.Destroy(ctx)
	if err != nil {
		return "", err
	}
	if !gone.ContainerGone || !gone.VolumesGone {
		return "", errors.New("the probe's sandbox was not seen to be gone")
	}
	detail := fmt.Sprintf("%d properties observed under %s", len(seen.Observed), seen.Runtime)
	if len(seen.NotEnforced) > 0 {
		detail += "; not enforced: " + strings.Join(seen.NotEnforced, ", ")
	}
	return detail, nil
}

func (h *Harness) checkRemote(ctx context.Context, p *profiles.Profile, url string) (detail string, err error) {
	if url == "" {
		return "", errors.New("no repository was named to check the remote's capabilities on")
	}
	repository, err := repotx.Canonical(url)
	if err != nil {
		return "", err
	}
	err = h.withRemote(ctx, repository, p.Publish, func(remote *repotx.Remote) error {
		adv, err := remote.Advertise(ctx)
		if err != nil {
			return err
		}
		detail = repository.ID + " answers the publish credential"
		if !adv.Fenceable() && !p.Controls.Requires(profiles.ControlFencing) {
			detail += "; it cannot be fenced"
			return nil
		}
		return adv.RequireFence()
	})
	return detail, err
}

func (h *Harness) checkModel(p *profiles.Profile) (string, error) {
	if err := p.Model.Validate(); err != nil {
		return "", err
	}
	if p.Model.Kind != rein.ModelNone {
		return "", fmt.Errorf("a model route of kind %q cannot be checked", p.Model.Kind)
	}
	return "none is declared", nil
}
