package main

import (
	"context"
	"time"

	"github.com/rein-aharness/harness"
	"github.com/rein-aharness/harness/evidence"
)

type runsWaitCmd struct {
	RunID   string        `arg:"" name:"run" help:"The run's id." placeholder:"RUN"`
	Timeout time.Duration `help:"How long to wait. Default: without end." placeholder:"DURATION"`
}

func (runsWaitCmd) Help() string {
	return `Returns when the run is over, or waits for the remote or an operator, with the exit code of the run; with 7 when the time is up.

Example:

    harness runs wait RUN --timeout 10m`
}

func (c runsWaitCmd) Run(ctx context.Context, a *app) error {
	return a.with(ctx, harness.Options{}, func(h *harness.Harness) error {
		run, err := h.Store().Run(ctx, c.RunID)
		if err != nil {
			return err
		}
		// The time is for the run, not for finding it.
		ctx := ctx
		if c.Timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, c.Timeout)
			defer cancel()
		}
		if run, err = a.wait(ctx, h, run); err != nil {
			return err
		}
		return a.end(run)
	})
}

type runsCancelCmd struct {
	RunID string `arg:"" name:"run" help:"The run's id." placeholder:"RUN"`
	operatorFlag
	Reason string `required:"" help:"Why, on one line; it becomes part of the evidence." placeholder:"TEXT"`
	Wait   bool   `help:"Follow the run to its end, and exit by how it ended."`
}

func (runsCancelCmd) Help() string {
	return `Takes the run away from whoever holds its lease: its session ends and nothing of it is accepted any more. A reconciler then closes
the run, after it has made sure on the remote that nothing can land. What has landed already stays and is confirmed. Cancelling
twice changes nothing.

Example:

    harness runs cancel RUN --reason "wrong branch" --operator ada`
}

func (c runsCancelCmd) Run(ctx context.Context, a *app) error {
	operator, err := c.decides(a.streams, c.Reason)
	if err != nil {
		return err
	}
	return a.with(ctx, harness.Options{}, func(h *harness.Harness) error {
		if err := h.Store().Cancel(ctx, c.RunID, operator, c.Reason); err != nil {
			return err
		}
		run, err := h.Store().Run(ctx, c.RunID)
		if err != nil {
			return err
		}
		if !c.Wait {
			if a.JSON {
				return a.printJSON(viewOf(run))
			}
			return a.printf("run %s is %s\n", clean(run.ID, maxCell), run.State)
		}
		if run, err = a.wait(ctx, h, run); err != nil {
			return err
		}
		return a.end(run)
	})
}

type runsRetryCmd struct {
	RunID      string `arg:"" name:"run" help:"The run that the new one supersedes." placeholder:"RUN"`
	TriggerKey string `help:"Identifies the occasion. Default: one that follows from the run, so that asking twice gives one successor." placeholder:"KEY"`
	Wait       bool   `help:"Follow the new run to its end, and exit by how it ended."`
}

func (runsRetryCmd) Help() string {
	return `Emits a further attempt at the same change, under the same operation key and with a baseline that is resolved anew. It is refused
unless the run is over and its effect is not_dispatched or not_applied.

Example:

    harness runs retry RUN --wait`
}

func (c runsRetryCmd) Run(ctx context.Context, a *app) error {
	return a.with(ctx, harness.Options{Vault: true}, func(h *harness.Harness) error {
		run, err := h.Store().Run(ctx, c.RunID)
		if err != nil {
			return err
		}
		request, err := run.Successor()
		if err != nil {
			return err
		}
		if c.TriggerKey != "" {
			request.TriggerKey = c.TriggerKey
		}
		next, created, err := h.Emit(ctx, request, "")
		if err != nil {
			return err
		}
		return a.follow(ctx, h, next, created, c.Wait)
	})
}

type runsSettleCmd struct {
	RunID string `arg:"" name:"run" help:"The run's id." placeholder:"RUN"`
	operatorFlag
	Effect string `required:"" enum:"confirmed,not_applied" help:"What you found out: confirmed or not_applied." placeholder:"EFFECT"`
	Reason string `required:"" help:"How you know, on one line; it becomes part of the evidence." placeholder:"TEXT"`
}

func (runsSettleCmd) Help() string {
	return `For a run whose effect the remote cannot decide: partial, or unknown for good. Look at the remote yourself, then record what you found.
The remote is asked first, and what it can decide is what counts. The evidence names you and your reason.

Example:

    harness runs settle RUN --effect not_applied --reason "the branch was restored from backup" --operator ada`
}

func (c runsSettleCmd) Run(ctx context.Context, a *app) error {
	operator, err := c.decides(a.streams, c.Reason)
	if err != nil {
		return err
	}
	return a.with(ctx, harness.Options{Vault: true, Engine: true}, func(h *harness.Harness) error {
		if err := h.SettleByOperator(ctx, c.RunID, evidence.Effect(c.Effect), operator, c.Reason); err != nil {
			return err
		}
		run, err := h.Store().Run(ctx, c.RunID)
		if err != nil {
			return err
		}
		return a.end(run)
	})
}
