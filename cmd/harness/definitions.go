package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/rein-aharness/harness"
	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/queue"
)

type definitionsCmd struct {
	Apply   definitionsApplyCmd   `cmd:"" help:"Make definition files current, so that workers keep their schedules."`
	List    definitionsListCmd    `cmd:"" help:"List the applied definitions."`
	Show    definitionsShowCmd    `cmd:"" help:"Show one applied definition."`
	Pause   definitionsPauseCmd   `cmd:"" help:"Emit nothing more of a definition by its schedule."`
	Resume  definitionsResumeCmd  `cmd:"" help:"Let a paused definition's schedule go on."`
	Next    definitionsNextCmd    `cmd:"" help:"Print when a definition is due next."`
	History definitionsHistoryCmd `cmd:"" help:"List a definition's revisions, and its due times with their runs."`
}

func (definitionsCmd) Help() string {
	return `A definition says who wants what, and when. Once it is applied, workers emit a run of it at each time that its schedule has due, by
the database's clock and in UTC. Without a schedule it is emitted by harness emit alone.`
}

// definitionName is an applied definition on the command line.
type definitionName struct {
	Name string `arg:"" help:"The definition's name." placeholder:"NAME"`
}

// definitionView is the JSON of an applied definition.
type definitionView struct {
	Name      string    `json:"name"`
	Revision  int       `json:"revision"`
	Digest    string    `json:"digest"`
	AppliedBy string    `json:"applied_by"`
	AppliedAt string    `json:"applied_at"`
	DecidedTo string    `json:"decided_to"` // every due time up to here is recorded or missed
	NextDue   *string   `json:"next_due"`   // null: never
	Waiting   int       `json:"waiting"`    // ticks that are still to be emitted
	Paused    *holdView `json:"paused"`     // null: it is not
}

// holdView is the JSON of who paused a definition.
type holdView struct {
	By     string  `json:"by"`
	Reason string  `json:"reason"`
	At     *string `json:"at"`
}

func definitionOf(d queue.Applied) definitionView {
	view := definitionView{
		Name: d.Name, Revision: d.Revision, Digest: d.Digest, AppliedBy: d.AppliedBy, AppliedAt: evidence.FormatTime(d.AppliedAt),
		DecidedTo: evidence.FormatTime(d.DecidedTo), NextDue: stamp(d.NextDue), Waiting: d.Waiting,
	}
	if d.Paused {
		view.Paused = &holdView{By: d.PausedBy, Reason: d.PausedReason, At: stamp(d.PausedAt)}
	}
	return view
}

// due says for people when a definition is due next.
func due(d queue.Applied) string {
	switch {
	case d.Paused:
		return "paused by " + d.PausedBy + ": " + d.PausedReason
	case d.NextDue == nil:
		return "never"
	}
	return at(*d.NextDue)
}

type definitionsApplyCmd struct {
	Files []string `arg:"" help:"Definition files; - is standard input." placeholder:"FILE"`
	operatorFlag
}

func (definitionsApplyCmd) Help() string {
	return `Checks all files and applies them together or not at all. A file that differs from what is current under its name becomes that name's
next revision; runs that were emitted stay what they are. A changed schedule counts from now. To take a definition out of use, pause
it, or apply it without its schedule.

Examples:

    harness definitions apply nightly.yaml --operator ada
    harness definitions apply definitions/*.yaml --operator ci`
}

// appliedView is the JSON of one applied file.
type appliedView struct {
	Name     string  `json:"name"`
	Revision int     `json:"revision"`
	Digest   string  `json:"digest"`
	Changed  bool    `json:"changed"` // false: it was current already
	NextDue  *string `json:"next_due"`
}

func (c definitionsApplyCmd) Run(ctx context.Context, a *app) error {
	operator, err := c.name(a.streams)
	if err != nil {
		return err
	}
	var definitions []queue.Definition
	for _, file := range c.Files {
		data, err := readInput(a.in, file)
		if err != nil {
			return fmt.Errorf("read the definition: %w", err)
		}
		d, err := queue.ParseDefinition(data)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		definitions = append(definitions, d)
	}
	return a.with(ctx, harness.Options{}, func(h *harness.Harness) error {
		changed, err := h.Store().Apply(ctx, operator, definitions...)
		if err != nil {
			return err
		}
		return a.sayApplied(ctx, h, definitions, changed)
	})
}

func (a *app) sayApplied(ctx context.Context, h *harness.Harness, definitions []queue.Definition, changed []string) error {
	differs := map[string]bool{}
	for _, name := range changed {
		differs[name] = true
	}
	views := []appliedView{}
	t := newTable(a.out)
	for _, d := range definitions {
		now, err := h.Store().Definition(ctx, d.Name)
		if err != nil {
			return err
		}
		views = append(views, appliedView{
			Name: now.Name, Revision: now.Revision, Digest: now.Digest, Changed: differs[now.Name], NextDue: stamp(now.NextDue),
		})
		word := "unchanged"
		if differs[now.Name] {
			word = "applied"
		}
		t.row(now.Name, word, "revision "+strconv.Itoa(now.Revision), "due next: "+due(now))
	}
	if a.JSON {
		return a.printJSON(views)
	}
	return t.flush()
}

type definitionsListCmd struct{}

func (definitionsListCmd) Help() string {
	return `Lists every applied definition with its revision, when it is due next, and how many ticks are still to be emitted.

Example:

    harness definitions list`
}

func (definitionsListCmd) Run(ctx context.Context, a *app) error {
	return a.with(ctx, harness.Options{}, func(h *harness.Harness) error {
		list, err := h.Store().Definitions(ctx)
		if err != nil {
			return err
		}
		views := []definitionView{}
		t := newTable(a.out)
		t.row("DEFINITION", "REVISION", "APPLIED", "BY", "WAITING", "DUE NEXT")
		for _, d := range list {
			views = append(views, definitionOf(d))
			t.row(d.Name, strconv.Itoa(d.Revision), at(d.AppliedAt), d.AppliedBy, strconv.Itoa(d.Waiting), due(d))
		}
		if a.JSON {
			return a.printJSON(views)
		}
		return t.flush()
	})
}

type definitionsShowCmd struct{ definitionName }

func (definitionsShowCmd) Help() string {
	return `Shows the current revision of a definition and its document as it is stored.

Example:

    harness definitions show nightly-gofumpt`
}

// definitionDetail is the JSON of definitions show.
type definitionDetail struct {
	definitionView
	Document json.RawMessage `json:"document"`
}

func (c definitionsShowCmd) Run(ctx context.Context, a *app) error {
	return a.with(ctx, harness.Options{}, func(h *harness.Harness) error {
		d, err := h.Store().Definition(ctx, c.Name)
		if err != nil {
			return err
		}
		if a.JSON {
			return a.printJSON(definitionDetail{definitionOf(d), d.Document})
		}
		t := newTable(a.out)
		t.row(d.Name)
		t.field("revision", strconv.Itoa(d.Revision)+" "+d.Digest)
		t.field("applied", at(d.AppliedAt)+" by "+d.AppliedBy)
		t.field("due next", due(d))
		t.field("waiting", strconv.Itoa(d.Waiting))
		t.field("decided to", at(d.DecidedTo))
		if err := t.flush(); err != nil {
			return err
		}
		return a.printJSON(json.RawMessage(d.Document))
	})
}
