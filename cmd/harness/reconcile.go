package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/rein-aharness/harness"
	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/queue"
)

type reconcileCmd struct {
	Runs  []string `arg:"" name:"run" optional:"" help:"The runs' ids." placeholder:"RUN"`
	Stuck bool     `help:"All runs that harness runs list --stuck lists."`
}

func (reconcileCmd) Help() string {
	return `Takes over runs that have to be settled, without waiting for their turn, and asks their remotes what became of them. It never runs a
session and never makes a commit. It exits with 7 when a run is still not settled.

Examples:

    harness reconcile RUN
    harness reconcile --stuck`
}

func (c reconcileCmd) Run(ctx context.Context, a *app) error {
	if c.Stuck == (len(c.Runs) > 0) {
		return misuse("name runs, or say --stuck")
	}
	return a.with(ctx, harness.Options{Vault: true, Engine: true}, func(h *harness.Harness) error {
		ids := c.Runs
		if c.Stuck {
			var err error
			if ids, err = stuck(ctx, h); err != nil {
				return err
			}
		}
		return a.reconcile(ctx, h, ids)
	})
}

// reconcile settles each of the runs, also after one that could not be.
func (a *app) reconcile(ctx context.Context, h *harness.Harness, ids []string) error {
	var errs []error
	views := []runView{}
	unsettled := false
	for _, id := range ids {
		if err := h.ReconcileNow(ctx, id); err != nil {
			errs = append(errs, fmt.Errorf("run %s: %w", id, err))
			continue
		}
		run, err := h.Store().Run(ctx, id)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		views = append(views, viewOf(run))
		unsettled = unsettled || !run.State.Final()
		if !a.JSON {
			if err := a.sayEnd(run); err != nil {
				return err
			}
		}
	}
	if a.JSON {
		if err := a.printJSON(views); err != nil {
			return err
		}
	}
	if err := errors.Join(errs...); err != nil || !unsettled {
		return err
	}
	return endWith(evidence.ExitUnknown)
}

// stuck lists the ids of all runs that need somebody.
func stuck(ctx context.Context, h *harness.Harness) ([]string, error) {
	runs, err := h.Store().Runs(ctx, queue.Filter{Stuck: true, Limit: 1000})
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, r := range runs {
		ids = append(ids, r.ID)
	}
	return ids, nil
}
