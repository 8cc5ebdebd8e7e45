package main

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/rein-aharness/harness"
	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/profiles"
)

type profilesListCmd struct{}

func (profilesListCmd) Help() string {
	return `Lists every published revision with its readiness on each engine that checked it. A record that has expired counts as unverified, and
an operator's block or disabling goes before every record.

Examples:

    harness profiles list
    harness profiles list --json`
}

// publishedView is the JSON of one published revision.
type publishedView struct {
	Ref         string          `json:"ref"`
	Name        string          `json:"name"`
	Version     string          `json:"version"`
	Digest      string          `json:"digest"`
	PublishedAt string          `json:"published_at"`
	PublishedBy string          `json:"published_by"`
	Mark        *markView       `json:"mark"` // the operators' last word, or null
	Readiness   []readinessView `json:"readiness"`
}

// markView is the JSON of an operator's word on a profile.
type markView struct {
	Verdict  string `json:"verdict"` // blocked, disabled or enabled
	Reason   string `json:"reason"`
	Operator string `json:"operator"`
	At       string `json:"at"`
}

func markOf(m profiles.Mark) markView {
	return markView{Verdict: m.Verdict, Reason: m.Reason, Operator: m.Operator, At: evidence.FormatTime(m.At)}
}

func publishedOf(p profiles.Published) publishedView {
	view := publishedView{
		Ref: p.Ref.String(), Name: p.Ref.Name, Version: p.Ref.Version, Digest: p.Ref.Digest,
		PublishedAt: evidence.FormatTime(p.PublishedAt), PublishedBy: p.PublishedBy, Readiness: []readinessView{},
	}
	if p.Mark.Verdict != "" {
		mark := markOf(p.Mark)
		view.Mark = &mark
	}
	for _, r := range p.Readiness {
		view.Readiness = append(view.Readiness, readinessOf(r))
	}
	return view
}

func (profilesListCmd) Run(ctx context.Context, a *app) error {
	return a.with(ctx, harness.Options{}, func(h *harness.Harness) error {
		list, err := h.Profiles().List(ctx)
		if err != nil {
			return err
		}
		if a.JSON {
			views := []publishedView{}
			for _, p := range list {
				views = append(views, publishedOf(p))
			}
			return a.printJSON(views)
		}
		t := newTable(a.out)
		t.row("PROFILE", "DIGEST", "PUBLISHED", "BY", "STANDING")
		for _, p := range list {
			standing, err := standings(ctx, h, p)
			if err != nil {
				return err
			}
			t.row(p.Ref.Revision(), p.Ref.Digest, at(p.PublishedAt), p.PublishedBy, strings.Join(standing, "; "))
		}
		return t.flush()
	})
}

// standings says how a profile stands now on each engine that checked it, and on this one.
func standings(ctx context.Context, h *harness.Harness, p profiles.Published) ([]string, error) {
	engines := []string{h.Config().Engine.Name}
	for _, r := range p.Readiness {
		if r.Engine != engines[0] {
			engines = append(engines, r.Engine)
		}
	}
	var out []string
	for _, engine := range engines {
		state, reason, err := h.Profiles().Standing(ctx, engine, p.Ref.Digest, h.Store().Now())
		if err != nil {
			return nil, err
		}
		out = append(out, engine+": "+string(state)+", "+reason)
	}
	return out, nil
}

type profilesShowCmd struct{ profileRef }

func (profilesShowCmd) Help() string {
	return `Shows a revision with its readiness on each engine, link by link, everything that operators said about it, and its canonical content.

Example:

    harness profiles show gofumpt@1.0.0`
}

// profileView is the JSON of profiles show.
type profileView struct {
	Ref       string            `json:"ref"`
	Digest    string            `json:"digest"`
	Pins      map[string]string `json:"pins"`
	Readiness []readinessView   `json:"readiness"`
	Marks     []markView        `json:"marks"` // the last word first
	Content   json.RawMessage   `json:"content"`
}

func (c profilesShowCmd) Run(ctx context.Context, a *app) error {
	return a.with(ctx, harness.Options{}, func(h *harness.Harness) error {
		ref, err := c.find(ctx, h)
		if err != nil {
			return err
		}
		profile, content, err := h.Profiles().Get(ctx, ref)
		if err != nil {
			return err
		}
		pins, err := profile.Pins()
		if err != nil {
			return err
		}
		records, err := h.Profiles().Readiness(ctx, ref.Digest)
		if err != nil {
			return err
		}
		marks, err := h.Profiles().Marks(ctx, ref.Digest)
		if err != nil {
			return err
		}
		view := profileView{
			Ref: ref.String(), Digest: ref.Digest, Pins: pins.Map(), Readiness: []readinessView{}, Marks: []markView{}, Content: content,
		}
		for _, r := range records {
			view.Readiness = append(view.Readiness, readinessOf(r))
		}
		for _, m := range marks {
			view.Marks = append(view.Marks, markOf(m))
		}
		if a.JSON {
			return a.printJSON(view)
		}
		return a.printProfile(view, records)
	})
}

func (a *app) printProfile(view profileView, records []profiles.Readiness) error {
	t := newTable(a.out)
	t.row(view.Ref)
	for _, part := range []string{"rein", "model", "tools", "sandbox", "credentials"} {
		t.field(part, view.Pins[part])
	}
	for _, m := range view.Marks {
		t.row(m.Verdict+" at "+m.At, "by "+m.Operator, m.Reason)
	}
	if len(records) == 0 {
		t.row("no engine has checked it: harness profiles check")
	}
	for _, r := range records {
		t.row("engine "+r.Engine, string(r.State)+" until "+at(r.ExpiresAt), r.Reason)
		printLinks(t, r.Links)
	}
	if err := t.flush(); err != nil {
		return err
	}
	return a.printJSON(view.Content)
}
