package main

import (
	"context"

	"github.com/rein-aharness/harness"
	"github.com/rein-aharness/harness/queue"
)

type pauseCmd struct {
	operatorFlag
	Reason string `required:"" help:"Why, on one line." placeholder:"TEXT"`
}

func (pauseCmd) Help() string {
	return `Stops all claims and publications, of every worker, until resume. When it returns, none is under way that had not been decided
before. Runs that work go on up to their acceptance and wait there; settling and delivering go on.

Example:

    harness pause --reason "the git server is moved" --operator ada`
}

func (c pauseCmd) Run(ctx context.Context, a *app) error {
	operator, err := c.decides(a.streams, c.Reason)
	if err != nil {
		return err
	}
	return a.control(ctx, func(s *queue.Store) error { return s.Pause(ctx, operator, c.Reason) })
}

type resumeCmd struct{}

func (resumeCmd) Help() string {
	return `Lets claims and publications go on.

Example:

    harness resume`
}

func (resumeCmd) Run(ctx context.Context, a *app) error {
	return a.control(ctx, func(s *queue.Store) error { return s.Resume(ctx) })
}

// controlView is the JSON of pause and resume.
type controlView struct {
	Paused bool    `json:"paused"`
	By     string  `json:"by"`
	Reason string  `json:"reason"`
	At     *string `json:"at"`
}

// control changes what holds for all workers, and prints it.
func (a *app) control(ctx context.Context, change func(*queue.Store) error) error {
	return a.with(ctx, harness.Options{}, func(h *harness.Harness) error {
		if err := change(h.Store()); err != nil {
			return err
		}
		control, err := h.Store().Control(ctx)
		if err != nil {
			return err
		}
		if a.JSON {
			return a.printJSON(controlView{Paused: control.Paused, By: control.PausedBy, Reason: control.PausedReason, At: stamp(control.PausedAt)})
		}
		if control.Paused {
			return a.printf("paused by %s: %s\n", clean(control.PausedBy, maxCell), clean(control.PausedReason, maxCell))
		}
		return a.printf("claims and publications are open\n")
	})
}
