package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/rein-aharness/harness"
	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/queue"
)

type runsShowCmd struct {
	RunID string `arg:"" name:"run" help:"The run's id." placeholder:"RUN"`
}

func (runsShowCmd) Help() string {
	return `Shows what was asked for and pinned, who holds or held the lease, each stage as the facts tell it, the effect, the commit and what
it changes, what was told of it outward, and for a run that waits, what for and what to do. The exit code is 0 however the run
ended; harness runs wait has that of the run.

Example:

    harness runs show 0198a7c2-6f7e-7d20-9f5c-2f6a3d0c1b11`
}

// runDetail is the JSON of runs show.
type runDetail struct {
	Run        runView         `json:"run"`
	Pins       *queue.Pins     `json:"pins"`     // null: the stored contract is not what its digest says
	Contract   json.RawMessage `json:"contract"` // canonical
	Result     json.RawMessage `json:"result"`   // canonical; null before the close
	Timeline   []factView      `json:"timeline"`
	Commit     *commitView     `json:"commit"` // null: no commit was made
	Deliveries []deliveryView  `json:"deliveries"`

	facts []evidence.Fact
}

// factView is the JSON of one fact of a timeline.
type factView struct {
	Seq    int             `json:"seq"`
	Epoch  int64           `json:"epoch"`
	At     string          `json:"at"`
	Stage  string          `json:"stage"`
	Kind   string          `json:"kind"`
	Source string          `json:"source"` // observed, reported, declared or not_observed
	Body   json.RawMessage `json:"body"`
}

// commitView is the JSON of the commit that a run made.
type commitView struct {
	Transaction  string   `json:"transaction"`
	Commit       string   `json:"commit"`
	Tree         string   `json:"tree"`
	Baseline     string   `json:"baseline"`
	TargetRef    string   `json:"target_ref"`
	ChangedCount int      `json:"changed_count"`
	Insertions   int64    `json:"insertions"`
	Deletions    int64    `json:"deletions"`
	ChangedPaths []string `json:"changed_paths"` // bounded; changed_count has all
}

func factViews(facts []evidence.Fact) []factView {
	views := []factView{}
	for _, f := range facts {
		views = append(views, factView{
			Seq: f.Seq, Epoch: f.Epoch, At: f.At, Stage: string(f.Stage), Kind: string(f.Kind), Source: string(f.Source),
			Body: json.RawMessage(f.Body),
		})
	}
	return views
}

func (c runsShowCmd) Run(ctx context.Context, a *app) error {
	return a.with(ctx, harness.Options{}, func(h *harness.Harness) error {
		run, err := h.Store().Run(ctx, c.RunID)
		if err != nil {
			return err
		}
		detail, err := detailOf(ctx, h, run)
		if err != nil {
			return err
		}
		if a.JSON {
			return a.printJSON(detail)
		}
		return a.printDetail(run, detail)
	})
}

func detailOf(ctx context.Context, h *harness.Harness, run queue.Run) (runDetail, error) {
	detail := runDetail{Run: viewOf(run), Contract: run.ContractBytes, Result: run.Result, Deliveries: []deliveryView{}}
	contract, err := run.Contract()
	var failure *evidence.Failure
	switch {
	case err == nil:
		detail.Pins = &contract.Pins
	case !errors.As(err, &failure): // a failure is a contract that was altered; evidence verify says so in full
		return detail, err
	}
	facts, err := h.Store().Facts(ctx, run.ID)
	if err != nil {
		return detail, err
	}
	detail.Timeline, detail.facts = factViews(facts), facts
	intended, found, err := evidence.Last[evidence.Intended](facts)
	if err != nil {
		return detail, err
	}
	if found {
		detail.Commit = &commitView{
			Transaction: intended.Transaction, Commit: intended.Commit, Tree: intended.Tree, Baseline: intended.Baseline,
			TargetRef: intended.TargetRef, ChangedCount: intended.ChangedCount, Insertions: intended.Insertions,
			Deletions: intended.Deletions, ChangedPaths: append([]string{}, intended.ChangedPaths...),
		}
	}
	lost, found, err := evidence.Last[evidence.Found](facts)
	if err != nil {
		return detail, err
	}
	if found {
		detail.Commit = &commitView{
			Transaction: lost.Transaction, Commit: lost.Commit, Tree: lost.Tree, Baseline: lost.Parent, TargetRef: run.TargetRef, ChangedPaths: []string{},
		}
	}
	deliveries, err := h.Store().Deliveries(ctx, queue.DeliveryFilter{Run: run.ID})
	if err != nil {
		return detail, err
	}
	for _, d := range deliveries {
		detail.Deliveries = append(detail.Deliveries, deliveryOf(d))
	}
	return detail, nil
}

func (a *app) printDetail(run queue.Run, d runDetail) error {
	t := newTable(a.out)
	t.row("run", run.ID)
	printRun(t, run)
	if d.Pins == nil {
		t.row("pins", "the stored contract is not what its digest says: harness evidence verify "+run.ID)
	} else {
		t.row("pins")
		for _, pin := range pinRows(*d.Pins) {
			t.field(pin[0], pin[1])
		}
	}
	if run.Epoch > 0 {
		t.row("lease")
		t.field("epoch", strconv.FormatInt(run.Epoch, 10))
		t.field("owner", run.Owner)
		t.field("engine", run.Engine)
		t.field("claimed", atOr(run.ClaimedAt))
		t.field("expires", atOr(run.ExpiresAt))
	}
	printCommit(t, d.Commit)
	for _, delivery := range d.Deliveries {
		t.row("delivery", fmt.Sprintf("%s to %s (%s): %s after %d attempts",
			delivery.Record, delivery.Endpoint, kindOf(delivery.Required), delivery.State, delivery.Attempts), delivery.LastError)
	}
	if err := t.flush(); err != nil {
		return err
	}
	if d.Commit != nil {
		for _, path := range d.Commit.ChangedPaths {
			if err := a.printf("  %s\n", clean(path, maxPath)); err != nil {
				return err
			}
		}
	}
	if err := a.printf("timeline\n"); err != nil {
		return err
	}
	if err := printTimeline(a.out, d.facts); err != nil {
		return err
	}
	if d.Run.Waiting != nil {
		return a.printf("waiting for: %s\nwhat to do: %s\n", clean(d.Run.Waiting.Reason, maxCell), clean(d.Run.Waiting.WhatToDo, maxCell))
	}
	return nil
}

const maxPath = 4096

func printRun(t *table, run queue.Run) {
	t.field("state", string(run.State))
	t.field("effect", string(run.Effect))
	t.field("stage", string(run.Stage))
	if run.Code != "" {
		t.field("ended by", fmt.Sprintf("%s in %s, %s", run.Code, run.FailedStage, run.Disposition))
	}
	t.field("labels", labels(run))
	t.field("definition", run.Definition)
	t.field("trigger key", run.TriggerKey)
	t.field("operation key", run.OperationKey)
	t.field("repository", run.Repository)
	t.field("base ref", run.BaseRef)
	t.field("target ref", run.TargetRef)
	t.field("profile", run.Profile)
	t.field("supersedes", run.Supersedes)
	t.field("emitted", at(run.CreatedAt))
	t.field("started", atOr(run.StartedAt))
	t.field("finished", atOr(run.FinishedAt))
	if run.FinishedAt == nil && run.StartedAt == nil {
		t.field("start before", at(run.DeadlineAt))
	}
	if run.CancelRequestedAt != nil {
		t.field("cancelled", fmt.Sprintf("%s by %s: %s", atOr(run.CancelRequestedAt), run.CancelBy, run.CancelReason))
	}
	t.field("request digest", run.RequestDigest)
	t.field("contract digest", run.ContractDigest)
}

func printCommit(t *table, c *commitView) {
	if c == nil {
		return
	}
	t.row("commit", c.Commit)
	t.field("transaction", c.Transaction)
	t.field("on", c.Baseline)
	t.field("changes", fmt.Sprintf("%d files, %d insertions, %d deletions", c.ChangedCount, c.Insertions, c.Deletions))
}

// printTimeline prints facts one to a line.
func printTimeline(w io.Writer, facts []evidence.Fact) error {
	t := newTable(w)
	for _, f := range facts {
		text, err := summary(f)
		if err != nil {
			return err
		}
		t.row("  "+f.At, fmt.Sprintf("epoch %d", f.Epoch), string(f.Stage), text)
	}
	return t.flush()
}
