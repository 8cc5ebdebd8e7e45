package main

import (
	"context"

	"github.com/rein-aharness/harness"
	"github.com/rein-aharness/harness/profiles"
)

// markFlags say who marks a profile and why.
type markFlags struct {
	profileRef
	operatorFlag
	Reason string `required:"" help:"Why, on one line; it stays on record." placeholder:"TEXT"`
}

// mark records an operator's word on a profile.
func (f markFlags) mark(ctx context.Context, a *app, verdict string,
	say func(store *profiles.Store, digest, reason, operator string) error,
) error {
	operator, err := f.decides(a.streams, f.Reason)
	if err != nil {
		return err
	}
	return a.with(ctx, harness.Options{}, func(h *harness.Harness) error {
		ref, err := f.find(ctx, h)
		if err != nil {
			return err
		}
		if err := say(h.Profiles(), ref.Digest, f.Reason, operator); err != nil {
			return err
		}
		if a.JSON {
			return a.printJSON(struct {
				Ref     string `json:"ref"`
				Verdict string `json:"verdict"`
			}{ref.String(), verdict})
		}
		return a.printf("%s is %s\n", clean(ref.Revision(), maxCell), verdict)
	})
}

type profilesBlockCmd struct{ markFlags }

func (profilesBlockCmd) Help() string {
	return `Refuses every run of the profile, on every engine, until enable. Runs that work already go on.

Example:

    harness profiles block gofumpt@1.0.0 --reason "the image has a known hole" --operator ada`
}

func (c profilesBlockCmd) Run(ctx context.Context, a *app) error {
	return c.mark(ctx, a, "blocked", func(s *profiles.Store, digest, reason, operator string) error {
		return s.Block(ctx, digest, reason, operator)
	})
}

type profilesDisableCmd struct{ markFlags }

func (profilesDisableCmd) Help() string {
	return `Like block, for a profile that is no longer meant to be used rather than one that is unsafe.

Example:

    harness profiles disable gofumpt@1.0.0 --reason "use 1.1.0" --operator ada`
}

func (c profilesDisableCmd) Run(ctx context.Context, a *app) error {
	return c.mark(ctx, a, "disabled", func(s *profiles.Store, digest, reason, operator string) error {
		return s.Disable(ctx, digest, reason, operator)
	})
}

type profilesEnableCmd struct{ markFlags }

func (profilesEnableCmd) Help() string {
	return `Takes a block or a disabling back. It makes nothing ready: the records of the engines hold again as they are.

Example:

    harness profiles enable gofumpt@1.0.0 --reason "the hole is closed" --operator ada`
}

func (c profilesEnableCmd) Run(ctx context.Context, a *app) error {
	return c.mark(ctx, a, "enabled", func(s *profiles.Store, digest, reason, operator string) error {
		return s.Enable(ctx, digest, reason, operator)
	})
}
