package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/rein-aharness/harness"
	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/queue"
)

// pollEvery is how often a run that is followed is looked at.
const pollEvery = 100 * time.Millisecond

// progress is where the lines go that tell how a run goes on: standard output, unless that holds a document.
func (a *app) progress() io.Writer {
	if a.JSON {
		return a.err
	}
	return a.out
}

// follower tells how a run goes on, with lines that are never taken back.
type follower struct {
	h   *harness.Harness
	out io.Writer

	run   queue.Run
	facts int // that are told
	stage evidence.Stage
	state evidence.State
}

// wait follows a run until it is final or waits for the remote or an operator. When ctx ends before, the error has the exit code of
// a run that is not over.
func (a *app) wait(ctx context.Context, h *harness.Harness, run queue.Run) (queue.Run, error) {
	f := &follower{h: h, out: a.progress(), run: run, stage: evidence.StageEmit, state: evidence.StateCreated}
	for {
		if err := f.look(ctx); err != nil {
			return f.run, f.interrupted(ctx, err)
		}
		if f.run.State.Final() || f.run.NextCheckAt != nil {
			return f.run, nil
		}
		select {
		case <-ctx.Done():
			return f.run, f.interrupted(ctx, ctx.Err())
		case <-time.After(pollEvery):
		}
	}
}

// interrupted tells an interruption from a failure of the command.
func (f *follower) interrupted(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	why := "interrupted"
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		why = "the time is up"
	}
	return &ended{evidence.ExitUnknown, fmt.Errorf("%s: run %s goes on, it is %s: %w", why, f.run.ID, f.run.State, ctx.Err())}
}

// look tells the facts and the changes of stage and state since the last look. The row is read before the facts, so that those of
// a final run are all there.
func (f *follower) look(ctx context.Context) error {
	run, err := f.h.Store().Run(ctx, f.run.ID)
	if err != nil {
		return err
	}
	facts, err := f.h.Store().Facts(ctx, run.ID)
	if err != nil {
		return err
	}
	f.run = run
	for ; f.facts < len(facts); f.facts++ {
		fact := facts[f.facts]
		if err := f.tell(fact); err != nil {
			return err
		}
		f.stage = fact.Stage
	}
	if run.State.Final() {
		return nil
	}
	if run.Stage != f.stage && run.Stage != "" {
		f.stage = run.Stage
		say(f.out, "%8s  %-10s began\n", seconds(time.Since(run.CreatedAt)), clean(string(run.Stage), maxCell))
	}
	if run.State != f.state {
		f.state = run.State
		if run.State != evidence.StateRunning {
			say(f.out, "%8s  the run is %s\n", seconds(time.Since(run.CreatedAt)), clean(string(run.State), maxCell))
		}
	}
	return nil
}

// tell prints one fact, at its time since the emission.
func (f *follower) tell(fact evidence.Fact) error {
	made, err := evidence.ParseTime(fact.At)
	if err != nil {
		return fmt.Errorf("fact %d: %w", fact.Seq, err)
	}
	text, err := summary(fact)
	if err != nil {
		return err
	}
	say(f.out, "%8s  %-10s %s\n", seconds(max(0, made.Sub(f.run.CreatedAt))), clean(string(fact.Stage), maxCell), clean(text, maxCell))
	return nil
}
