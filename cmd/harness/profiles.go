package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/rein-aharness/harness"
	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/profiles"
)

type profilesCmd struct {
	List    profilesListCmd    `cmd:"" help:"List what is published, and how far each can be used."`
	Show    profilesShowCmd    `cmd:"" help:"Show one published profile, its readiness and what operators said."`
	Digest  profilesDigestCmd  `cmd:"" help:"Print the exact reference of profile files."`
	Publish profilesPublishCmd `cmd:"" help:"Publish profile files for good."`
	Check   profilesCheckCmd   `cmd:"" help:"Exercise the whole chain of a profile on this engine and record what was found."`
	Block   profilesBlockCmd   `cmd:"" help:"Refuse every run of a profile as unsafe."`
	Disable profilesDisableCmd `cmd:"" help:"Refuse every run of a profile as no longer meant to be used."`
	Enable  profilesEnableCmd  `cmd:"" help:"Take a block or a disabling back."`
}

func (profilesCmd) Help() string {
	return `A profile is an immutable document, name@version, that says which rein runs in which sandbox with which credentials and bounds.
Publishing makes it known and nothing more. Whether it can be used is a record of each engine, made by check, that expires.`
}

// profileRef is a published profile on the command line.
type profileRef struct {
	Ref string `arg:"" help:"name@version, or the exact name@version#sha256:…" placeholder:"REF"`
}

// find gives the exact reference. A digest that is named must be the published one.
func (r profileRef) find(ctx context.Context, h *harness.Harness) (profiles.Ref, error) {
	if strings.Contains(r.Ref, "#") {
		ref, err := profiles.ParseRef(r.Ref)
		if err != nil {
			return ref, err
		}
		_, _, err = h.Profiles().Get(ctx, ref)
		return ref, err
	}
	name, version, ok := strings.Cut(r.Ref, "@")
	if !ok {
		return profiles.Ref{}, misuse("%q is not name@version", r.Ref)
	}
	return h.Profiles().Find(ctx, name, version)
}

// profileFiles are profile documents on the command line.
type profileFiles struct {
	Files []string `arg:"" optional:"" help:"Profile files. Default: all of the configured catalog." placeholder:"FILE"`
}

// read reads and validates the files, or the catalog.
func (f profileFiles) read(a *app) ([]*profiles.Profile, error) {
	if len(f.Files) == 0 {
		config, err := a.config()
		if err != nil {
			return nil, err
		}
		list, err := profiles.Catalog(os.DirFS(config.Catalog))
		return list, as(codeConfiguration, err)
	}
	var list []*profiles.Profile
	for _, path := range f.Files {
		data, err := readInput(a.in, path)
		if err != nil {
			return nil, fmt.Errorf("read a profile: %w", err)
		}
		p, err := profiles.Parse(data)
		if err != nil {
			return nil, fmt.Errorf("profile %s: %w", path, err)
		}
		list = append(list, p)
	}
	return list, nil
}

type profilesDigestCmd struct{ profileFiles }

func (profilesDigestCmd) Help() string {
	return `Reads profile files strictly and prints the reference that a definition names, name@version#sha256:…, one per line. The digest is
that of the content, not of the file: comments, order and spacing do not change it. No database is needed.

Example:

    harness profiles digest configs/catalog/gofumpt.yaml`
}

// digestView is the JSON of one profile file.
type digestView struct {
	Ref     string            `json:"ref"` // name@version#digest
	Name    string            `json:"name"`
	Version string            `json:"version"`
	Digest  string            `json:"digest"`
	Pins    map[string]string `json:"pins"` // digest of each part
}

func (c profilesDigestCmd) Run(a *app) error {
	list, err := c.read(a)
	if err != nil {
		return err
	}
	views := make([]digestView, 0, len(list))
	for _, p := range list {
		ref, err := p.Ref()
		if err != nil {
			return err
		}
		pins, err := p.Pins()
		if err != nil {
			return err
		}
		views = append(views, digestView{Ref: ref.String(), Name: ref.Name, Version: ref.Version, Digest: ref.Digest, Pins: pins.Map()})
	}
	if a.JSON {
		return a.printJSON(views)
	}
	for _, v := range views {
		if err := a.printf("%s\n", clean(v.Ref, maxCell)); err != nil {
			return err
		}
	}
	return nil
}

type profilesPublishCmd struct {
	profileFiles
	operatorFlag
}

func (profilesPublishCmd) Help() string {
	return `Makes revisions known for good: a version that is published never changes, and the same content again is no error. It does not
make them ready; that is what check finds out.

Examples:

    harness profiles publish --operator ada
    harness profiles publish configs/catalog/gofumpt.yaml --operator ada`
}

// publishView is the JSON of one published file.
type publishView struct {
	Ref     string `json:"ref"`
	Created bool   `json:"created"` // false: it was published already, with the same content
}

func (c profilesPublishCmd) Run(ctx context.Context, a *app) error {
	operator, err := c.name(a.streams)
	if err != nil {
		return err
	}
	list, err := c.read(a)
	if err != nil {
		return err
	}
	return a.with(ctx, harness.Options{}, func(h *harness.Harness) error {
		views := make([]publishView, 0, len(list))
		for _, p := range list {
			ref, created, err := h.Profiles().Publish(ctx, p, operator)
			if err != nil {
				return err
			}
			views = append(views, publishView{Ref: ref.String(), Created: created})
		}
		if a.JSON {
			return a.printJSON(views)
		}
		t := newTable(a.out)
		for _, v := range views {
			what := "published"
			if !v.Created {
				what = "was published already"
			}
			t.row(v.Ref, what)
		}
		return t.flush()
	})
}

type profilesCheckCmd struct {
	profileRef
	Repository string        `required:"" help:"A repository that runs with the profile are for; its remote's capabilities are part of the chain." placeholder:"URL"`
	Valid      time.Duration `help:"How long the check vouches for the profile, at most 168h." default:"24h"`
}

func (profilesCheckCmd) Help() string {
	return `Exercises every link that a run with the profile depends on: the queue, the image and the runtime on this machine's engine, a real
sandbox whose isolation is observed from inside, each Vault route, the signing key, the remote. The result is recorded for this
engine: ready when every link holds, and otherwise unverified with the broken links named. It exits with 3 unless ready.

Example:

    harness profiles check gofumpt@1.0.0 --repository https://git.example.org/team/module.git`
}

// readinessView is the JSON of a readiness record.
type readinessView struct {
	Engine    string          `json:"engine"`
	Digest    string          `json:"digest"`
	State     string          `json:"state"`
	Reason    string          `json:"reason"`
	CheckedAt string          `json:"checked_at"`
	ExpiresAt string          `json:"expires_at"`
	Links     []profiles.Link `json:"links"`
}

func readinessOf(r profiles.Readiness) readinessView {
	return readinessView{
		Engine: r.Engine, Digest: r.Digest, State: string(r.State), Reason: r.Reason,
		CheckedAt: evidence.FormatTime(r.CheckedAt), ExpiresAt: evidence.FormatTime(r.ExpiresAt),
		Links: append([]profiles.Link{}, r.Links...),
	}
}

func (c profilesCheckCmd) Run(ctx context.Context, a *app) error {
	if c.Valid <= 0 || c.Valid > profiles.MaxReadiness {
		return misuse("--valid: must be more than 0 and at most %s", profiles.MaxReadiness)
	}
	return a.with(ctx, harness.Options{Vault: true, Engine: true}, func(h *harness.Harness) error {
		ref, err := c.find(ctx, h)
		if err != nil {
			return err
		}
		found, err := h.CheckProfile(ctx, ref, harness.CheckOptions{Repository: c.Repository, Valid: c.Valid})
		if err != nil {
			return err
		}
		if a.JSON {
			err = a.printJSON(readinessOf(found))
		} else {
			err = a.printReadiness(ref, found)
		}
		if err != nil || found.State == profiles.StateReady {
			return err
		}
		return &ended{evidence.ExitRefused, profiles.Refusal(ref, found.State, found.Reason, false)}
	})
}

func (a *app) printReadiness(ref profiles.Ref, r profiles.Readiness) error {
	t := newTable(a.out)
	printLinks(t, r.Links)
	if err := t.flush(); err != nil {
		return err
	}
	return a.printf("%s is %s on engine %s until %s: %s\n", clean(ref.Revision(), maxCell), r.State, clean(r.Engine, maxCell), at(r.ExpiresAt),
		clean(r.Reason, maxCell))
}

func printLinks(t *table, links []profiles.Link) {
	for _, link := range links {
		result := "ok"
		if !link.OK {
			result = "FAIL"
		}
		t.row("  "+result, link.Name, link.Detail)
	}
}
