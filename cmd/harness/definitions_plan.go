package main

import (
	"context"
	"strconv"
	"time"

	"github.com/rein-aharness/harness"
	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/queue"
)

type definitionsPauseCmd struct {
	definitionName
	operatorFlag
	Reason string `required:"" help:"Why, on one line." placeholder:"TEXT"`
}

func (definitionsPauseCmd) Help() string {
	return `Nothing more is emitted of the definition by its schedule, further attempts included, until resume. Runs that were emitted go on.
harness emit still emits it.

Example:

    harness definitions pause nightly-gofumpt --reason "code freeze" --operator ada`
}

func (c definitionsPauseCmd) Run(ctx context.Context, a *app) error {
	operator, err := c.decides(a.streams, c.Reason)
	if err != nil {
		return err
	}
	return a.switchDefinition(ctx, c.Name, func(s *queue.Store) error {
		return s.PauseDefinition(ctx, c.Name, operator, c.Reason)
	})
}

type definitionsResumeCmd struct{ definitionName }

func (definitionsResumeCmd) Help() string {
	return `Lets the schedule go on. What became due meanwhile was missed: the definition's policy says what of it is still emitted.

Example:

    harness definitions resume nightly-gofumpt`
}

func (c definitionsResumeCmd) Run(ctx context.Context, a *app) error {
	return a.switchDefinition(ctx, c.Name, func(s *queue.Store) error { return s.ResumeDefinition(ctx, c.Name) })
}

// switchDefinition pauses or resumes a definition, and prints it.
func (a *app) switchDefinition(ctx context.Context, name string, change func(*queue.Store) error) error {
	return a.with(ctx, harness.Options{}, func(h *harness.Harness) error {
		if err := change(h.Store()); err != nil {
			return err
		}
		d, err := h.Store().Definition(ctx, name)
		if err != nil {
			return err
		}
		if a.JSON {
			return a.printJSON(definitionOf(d))
		}
		return a.printf("%s: due next: %s\n", clean(d.Name, maxCell), clean(due(d), maxCell))
	})
}

type definitionsNextCmd struct {
	definitionName
	Count int `short:"n" help:"How many times, at most 1000. Default: 5" default:"5" placeholder:"N"`
}

func (definitionsNextCmd) Help() string {
	return `Prints the next due times in UTC. Whether the definition is paused makes no difference here.

Example:

    harness definitions next nightly-gofumpt -n 10`
}

// nextView is the JSON of definitions next.
type nextView struct {
	Name string   `json:"name"`
	Due  []string `json:"due"`
}

func (c definitionsNextCmd) Run(ctx context.Context, a *app) error {
	if c.Count < 1 || c.Count > 1000 {
		return misuse("-n: must be 1 to 1000")
	}
	return a.with(ctx, harness.Options{}, func(h *harness.Harness) error {
		stored, err := h.Store().Definition(ctx, c.Name)
		if err != nil {
			return err
		}
		times, err := nextTimes(stored, c.Count)
		if err != nil {
			return err
		}
		if a.JSON {
			view := nextView{Name: stored.Name, Due: []string{}}
			for _, t := range times {
				view.Due = append(view.Due, evidence.FormatTime(t))
			}
			return a.printJSON(view)
		}
		for _, t := range times {
			if err := a.printf("%s\n", at(t)); err != nil {
				return err
			}
		}
		return nil
	})
}

// nextTimes gives the next due times of a definition, from the one that is stored as the next.
func nextTimes(stored queue.Applied, count int) ([]time.Time, error) {
	if stored.NextDue == nil {
		return nil, nil
	}
	d, err := stored.Definition()
	if err != nil {
		return nil, err
	}
	plan, err := d.Schedule.Parse()
	if err != nil {
		return nil, err
	}
	times := []time.Time{*stored.NextDue}
	for len(times) < count {
		next := plan.Next(times[len(times)-1])
		if next.IsZero() {
			break
		}
		times = append(times, next)
	}
	return times, nil
}

type definitionsHistoryCmd struct {
	definitionName
	Count int `short:"n" help:"How many ticks, at most 1000. Default: 20" default:"20" placeholder:"N"`
}

func (definitionsHistoryCmd) Help() string {
	return `Lists what was applied under the name, and the newest ticks: each is a due time that counted, or a further attempt at one, with the run
that was emitted for it. A tick is pending (to be emitted), emitted (its run is under way), ended (its run is over), refused (nothing was
emitted, for the reason that the code names) or dropped (the database was restored, and it may have been emitted before).

Examples:

    harness definitions history nightly-gofumpt
    harness definitions history nightly-gofumpt -n 100 --json`
}

// historyView is the JSON of definitions history.
type historyView struct {
	Name      string         `json:"name"`
	Revisions []revisionView `json:"revisions"` // the newest first, as are the ticks
	Ticks     []tickView     `json:"ticks"`
}

type revisionView struct {
	Revision  int    `json:"revision"`
	Digest    string `json:"digest"`
	AppliedBy string `json:"applied_by"`
	AppliedAt string `json:"applied_at"`
}

type tickView struct {
	Due        string      `json:"due"`
	Attempt    int         `json:"attempt"`
	Revision   int         `json:"revision"`
	Missed     int         `json:"missed"` // due times before this one that did not count
	State      string      `json:"state"`
	Code       string      `json:"code"` // why it was refused, or could not be emitted yet
	Tries      int         `json:"tries"`
	NextTryAt  *string     `json:"next_try_at"` // of a pending one
	TriggerKey string      `json:"trigger_key"`
	Supersedes string      `json:"supersedes"`
	Run        *tickedView `json:"run"` // null: there is none
}

type tickedView struct {
	ID     string `json:"id"`
	State  string `json:"state"`
	Effect string `json:"effect"`
	Code   string `json:"code"`
}

func tickOf(t queue.PastTick) tickView {
	v := tickView{
		Due: evidence.FormatTime(t.Due), Attempt: t.Attempt, Revision: t.Revision, Missed: t.Missed, State: string(t.State),
		Code: string(t.Code), Tries: t.Tries, TriggerKey: t.TriggerKey, Supersedes: t.Supersedes,
	}
	if t.State == queue.TickPending {
		v.NextTryAt = stamp(&t.NextTryAt)
	}
	if t.Run != "" {
		v.Run = &tickedView{ID: t.Run, State: string(t.RunIs), Effect: string(t.Effect), Code: string(t.RunCode)}
	}
	return v
}

func (c definitionsHistoryCmd) Run(ctx context.Context, a *app) error {
	if c.Count < 1 || c.Count > 1000 {
		return misuse("-n: must be 1 to 1000")
	}
	return a.with(ctx, harness.Options{}, func(h *harness.Harness) error {
		if _, err := h.Store().Definition(ctx, c.Name); err != nil {
			return err
		}
		revisions, err := h.Store().Revisions(ctx, c.Name)
		if err != nil {
			return err
		}
		ticks, err := h.Store().Ticks(ctx, c.Name, c.Count)
		if err != nil {
			return err
		}
		if a.JSON {
			return a.printJSON(historyOf(c.Name, revisions, ticks))
		}
		return a.printHistory(revisions, ticks)
	})
}

func historyOf(name string, revisions []queue.Revision, ticks []queue.PastTick) historyView {
	view := historyView{Name: name, Revisions: []revisionView{}, Ticks: []tickView{}}
	for _, r := range revisions {
		view.Revisions = append(view.Revisions, revisionView{
			Revision: r.Number, Digest: r.Digest, AppliedBy: r.AppliedBy, AppliedAt: evidence.FormatTime(r.AppliedAt),
		})
	}
	for _, t := range ticks {
		view.Ticks = append(view.Ticks, tickOf(t))
	}
	return view
}

func (a *app) printHistory(revisions []queue.Revision, ticks []queue.PastTick) error {
	t := newTable(a.out)
	t.row("REVISION", "APPLIED", "BY", "DIGEST")
	for _, r := range revisions {
		t.row(strconv.Itoa(r.Number), at(r.AppliedAt), r.AppliedBy, r.Digest)
	}
	if err := t.flush(); err != nil || len(ticks) == 0 {
		return err
	}
	t = newTable(a.out)
	t.row("DUE", "ATTEMPT", "REVISION", "MISSED", "TICK", "CODE", "RUN", "STATE", "EFFECT")
	for _, past := range ticks {
		code := past.Code
		if code == "" {
			code = past.RunCode
		}
		t.row(at(past.Due), strconv.Itoa(past.Attempt), strconv.Itoa(past.Revision), strconv.Itoa(past.Missed), string(past.State),
			string(code), past.Run, string(past.RunIs), string(past.Effect))
	}
	return t.flush()
}
