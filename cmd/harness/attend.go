package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/rein-aharness/harness"
	"github.com/rein-aharness/harness/queue"
)

type attendCmd struct {
	definitionFlags
	operatorFlag
	TriggerKey string `help:"Identifies the occasion. Default: a new one each time." placeholder:"KEY"`
	Attended   bool   `help:"A person watches although there is no terminal; --operator says who."`
}

func (attendCmd) Help() string {
	return `Emits a run that only this process executes, and shows each stage as it goes: the same chain, the same transaction and the same
acceptance as any other run, labelled as attended. It refuses to run without a terminal, unless --attended and --operator are given.

An interrupt cancels the run: its session ends, and what it may have asked of the remote is settled before the command returns. A
second one ends the process, and a worker settles the run.

Examples:

    harness run -f gofumpt.yaml
    harness run -f gofumpt.yaml --attended --operator ada --json`
}

func (c attendCmd) Run(ctx context.Context, a *app) error {
	operator, err := c.operator(a.streams)
	if err != nil {
		return err
	}
	nonce, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("make the name of this occasion: %w", err)
	}
	if c.TriggerKey == "" {
		c.TriggerKey = "attended:" + nonce.String()
	}
	request, err := c.request(a.in, queue.Occasion{TriggerKey: c.TriggerKey, Operator: operator})
	if err != nil {
		return err
	}
	timeline := newTimeline(a.progress(), time.Now)
	defer timeline.Close()
	return a.with(ctx, harness.Options{Vault: true, Engine: true, Watch: timeline.Progress}, func(h *harness.Harness) error {
		run, created, err := h.Emit(ctx, request, "attended-"+nonce.String())
		if err != nil {
			return err
		}
		if !a.JSON {
			if err := a.sayEmitted(run, created); err != nil {
				return err
			}
		}
		if created { // what exists already is another process's
			run, err = attend(ctx, h, run, operator)
			timeline.Close()
			if err != nil {
				return err
			}
		}
		if a.JSON {
			err = a.printJSON(emitted{Run: viewOf(run), Created: created})
		} else {
			err = a.sayEnd(run)
		}
		return errors.Join(err, endWith(exitOfRun(run)))
	})
}

// operator names the person who attends.
func (c attendCmd) operator(s streams) (string, error) {
	if !s.attended() && !c.Attended {
		return "", misuse("nobody attends: there is no terminal; --attended and --operator say who does")
	}
	return c.name(s)
}

// settleWithin bounds what an interrupted command still does for its run.
const settleWithin = 2 * time.Minute

// attend executes the run here. When ctx ends the run is cancelled, so that its session ends, and then settled by this process.
func attend(ctx context.Context, h *harness.Harness, run queue.Run, operator string) (queue.Run, error) {
	cancelled := make(chan error, 1)
	uninterrupted := context.AfterFunc(ctx, func() {
		asking, done := context.WithTimeout(context.WithoutCancel(ctx), settleWithin)
		defer done()
		cancelled <- h.Store().Cancel(asking, run.ID, operator, "interrupted")
	})
	after, err := h.Attend(ctx, run)
	if uninterrupted() {
		return after, err
	}
	settling, done := context.WithTimeout(context.WithoutCancel(ctx), settleWithin)
	defer done()
	if err := <-cancelled; err != nil && !errors.Is(err, queue.ErrFinal) {
		return run, err
	}
	if run, err = h.Store().Run(settling, run.ID); err != nil || run.State.Final() {
		return run, err
	}
	// Another worker may have been faster.
	if err := h.ReconcileNow(settling, run.ID); err != nil && !errors.Is(err, queue.ErrNotClaimable) {
		return run, err
	}
	return h.Wait(settling, run.ID)
}
