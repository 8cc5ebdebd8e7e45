package main

import (
	"fmt"
	"strings"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/queue"
)

// end prints how a run ended, or what it waits for, and gives its exit code.
func (a *app) end(run queue.Run) error {
	var err error
	if a.JSON {
		err = a.printJSON(viewOf(run))
	} else {
		err = a.sayEnd(run)
	}
	if err != nil {
		return err
	}
	return endWith(exitOfRun(run))
}

// sayEnd prints how a run ended, or what it waits for, in few lines.
func (a *app) sayEnd(run queue.Run) error {
	line := fmt.Sprintf("run %s is %s, effect %s", run.ID, run.State, run.Effect)
	if run.Code != "" {
		line += fmt.Sprintf(" [%s in %s]", run.Code, run.FailedStage)
	} else if code := waitsWith(run); code != "" {
		line += fmt.Sprintf(" [%s]", code)
	}
	if run.Disposition == evidence.OutcomeNoChange {
		line += ": nothing had to change"
	}
	if s := labels(run); s != "" {
		line += " (" + s + ")"
	}
	if err := a.printf("%s\n", clean(line, maxErrorLine)); err != nil {
		return err
	}
	if !run.State.Final() {
		if run.NextCheckAt != nil {
			return a.printf("waiting for: %s\nwhat to do: %s\n", clean(run.WaitReason, maxCell), clean(whatToDo(run), maxErrorLine))
		}
		return nil
	}
	if err := a.sayResult(run); err != nil {
		return err
	}
	if run.Code != "" {
		next := adviceFor(run.Code)
		if next == "" {
			next = "harness runs show RUN and harness runs logs RUN tell more"
		}
		a.advise(strings.ReplaceAll(next, "RUN", clean(run.ID, maxCell)), string(run.Code))
	}
	return nil
}

// waitsWith is the code that a run which is not over waits with; empty when it does not.
func waitsWith(run queue.Run) evidence.Code {
	switch {
	case run.State == evidence.StateWaitingApproval:
		return evidence.CodeApprovalRequired
	case run.State != evidence.StateWaitingExternal:
		return ""
	case run.Effect == evidence.EffectPartial:
		return evidence.CodePublicationPartial
	default:
		return evidence.CodeSettleUnknown
	}
}

// sayResult prints what the result says about the commit.
func (a *app) sayResult(run queue.Run) error {
	result, err := queue.DecodeResult(run.Result)
	if err != nil {
		return err
	}
	if result.Subject != "" {
		if err := a.printf("about: %s\n", clean(result.Subject, maxCell)); err != nil {
			return err
		}
	}
	if result.Commit == "" {
		return nil
	}
	what := "commit"
	if run.Effect != evidence.EffectConfirmed {
		what = "commit, not published:"
	}
	return a.printf("%s %s on %s: %d files changed, %d insertions, %d deletions\n", what, clean(result.Commit, maxCell),
		clean(run.TargetRef, maxCell), result.ChangedCount, result.Insertions, result.Deletions)
}
