package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rein-aharness/harness"
	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/queue"
	"github.com/rein-aharness/harness/repotx"
)

type runsCmd struct {
	List   runsListCmd   `cmd:"" help:"List runs, the newest first."`
	Show   runsShowCmd   `cmd:"" help:"Show everything about one run."`
	Logs   runsLogsCmd   `cmd:"" help:"Print a run's session log."`
	Wait   runsWaitCmd   `cmd:"" help:"Follow a run to its end, and exit by how it ended."`
	Cancel runsCancelCmd `cmd:"" help:"End a run; what it has asked of the remote is settled first."`
	Retry  runsRetryCmd  `cmd:"" help:"Emit a successor of a run that changed nothing."`
	Settle runsSettleCmd `cmd:"" help:"Decide the effect of a run that the remote cannot decide."`
}

func (runsCmd) Help() string {
	return `A run is one emitted request and one attempt at it. It is over when it is completed, failed, cancelled or expired, and then never
changes again.`
}

// runView is the JSON of a run.
type runView struct {
	ID             string      `json:"id"`
	State          string      `json:"state"`
	Effect         string      `json:"effect"` // what is known about the change on the remote
	Stage          string      `json:"stage"`  // the last one that began
	ExitCode       int         `json:"exit_code"`
	Definition     string      `json:"definition"`
	TriggerKey     string      `json:"trigger_key"`
	OperationKey   string      `json:"operation_key"`
	Repository     string      `json:"repository"`
	BaseRef        string      `json:"base_ref"`
	TargetRef      string      `json:"target_ref"`
	Baseline       string      `json:"baseline"`
	Profile        string      `json:"profile"`
	ProfileDigest  string      `json:"profile_digest"`
	RequestDigest  string      `json:"request_digest"`
	ContractDigest string      `json:"contract_digest"`
	Proof          string      `json:"proof"` // label of a bounded proof of an unverified profile, or empty
	Attended       bool        `json:"attended"`
	Operator       string      `json:"operator"`
	Supersedes     string      `json:"supersedes"`
	CreatedAt      string      `json:"created_at"`
	DeadlineAt     string      `json:"deadline_at"`
	StartedAt      *string     `json:"started_at"`
	FinishedAt     *string     `json:"finished_at"`
	Lease          leaseView   `json:"lease"`
	Cancel         *cancelView `json:"cancel"`
	Waiting        *waitView   `json:"waiting"`
	FailedStage    string      `json:"failed_stage"`
	Code           string      `json:"code"`
	Disposition    string      `json:"disposition"`
}

// leaseView is the JSON of a run's last lease.
type leaseView struct {
	Epoch     int64   `json:"epoch"`
	Owner     string  `json:"owner"`
	WorkerID  string  `json:"worker_id"`
	Engine    string  `json:"engine"`
	ClaimedAt *string `json:"claimed_at"`
	ExpiresAt *string `json:"expires_at"` // null: nobody holds it
}

// cancelView is the JSON of a request to end a run.
type cancelView struct {
	By          string  `json:"by"`
	Reason      string  `json:"reason"`
	RequestedAt *string `json:"requested_at"`
}

// waitView is the JSON of what a run waits for.
type waitView struct {
	Reason      string  `json:"reason"`
	NextCheckAt *string `json:"next_check_at"`
	WhatToDo    string  `json:"what_to_do"`
}

func viewOf(r queue.Run) runView {
	v := runView{
		ID: r.ID, State: string(r.State), Effect: string(r.Effect), Stage: string(r.Stage), ExitCode: int(exitOfRun(r)),
		Definition: r.Definition, TriggerKey: r.TriggerKey, OperationKey: r.OperationKey, Repository: r.Repository, BaseRef: r.BaseRef,
		TargetRef: r.TargetRef, Baseline: r.Baseline, Profile: r.Profile, ProfileDigest: r.ProfileDigest,
		RequestDigest: r.RequestDigest, ContractDigest: r.ContractDigest, Proof: r.Proof, Attended: r.Attended, Operator: r.Operator,
		Supersedes: r.Supersedes, CreatedAt: evidence.FormatTime(r.CreatedAt), DeadlineAt: evidence.FormatTime(r.DeadlineAt),
		StartedAt: stamp(r.StartedAt), FinishedAt: stamp(r.FinishedAt),
		Lease: leaseView{
			Epoch: r.Epoch, Owner: r.Owner, WorkerID: r.WorkerID, Engine: r.Engine, ClaimedAt: stamp(r.ClaimedAt), ExpiresAt: stamp(r.ExpiresAt),
		},
		FailedStage: string(r.FailedStage), Code: string(r.Code), Disposition: string(r.Disposition),
	}
	if r.CancelRequestedAt != nil {
		v.Cancel = &cancelView{By: r.CancelBy, Reason: r.CancelReason, RequestedAt: stamp(r.CancelRequestedAt)}
	}
	if r.NextCheckAt != nil || r.WaitReason != "" {
		v.Waiting = &waitView{Reason: r.WaitReason, NextCheckAt: stamp(r.NextCheckAt), WhatToDo: whatToDo(r)}
	}
	return v
}

// whatToDo says what an operator can do about a run that waits.
func whatToDo(r queue.Run) string {
	if r.Effect == evidence.EffectPartial {
		return fmt.Sprintf("the fence moved and the branch did not: look at the remote, then harness runs settle %s --effect confirmed|not_applied", r.ID)
	}
	return fmt.Sprintf("the remote is asked again by itself; harness reconcile %s asks it now; "+
		"if it never can decide, harness runs settle %s records what you found out", r.ID, r.ID)
}

type runsListCmd struct {
	State      []string `help:"Only runs in these states." placeholder:"STATE"`
	Definition string   `help:"Only runs of this definition." placeholder:"NAME"`
	Repository string   `help:"Only runs on this repository, by its canonical identity or its URL." placeholder:"REPO"`
	Stuck      bool     `help:"Only runs that wait for the remote, or that nobody has acted for in time."`
	Before     string   `help:"Only runs emitted before this one: the next page." placeholder:"RUN"`
	Limit      int      `help:"How many, at most 1000." default:"50"`
}

func (runsListCmd) Help() string {
	return `Examples:

    harness runs list --state running --state waiting_external
    harness runs list --stuck
    harness runs list --definition gofumpt --limit 10 --json`
}

func (c runsListCmd) Run(ctx context.Context, a *app) error {
	filter, err := c.filter()
	if err != nil {
		return err
	}
	return a.with(ctx, harness.Options{}, func(h *harness.Harness) error {
		list, err := h.Store().Runs(ctx, filter)
		if err != nil {
			return err
		}
		if a.JSON {
			views := []runView{}
			for _, r := range list {
				views = append(views, viewOf(r))
			}
			return a.printJSON(views)
		}
		t := newTable(a.out)
		t.row("RUN", "STATE", "EFFECT", "STAGE", "CODE", "DEFINITION", "REPOSITORY", "TARGET", "EMITTED", "LABELS")
		for _, r := range list {
			t.row(r.ID, string(r.State), string(r.Effect), string(r.Stage), string(r.Code), r.Definition, r.Repository, r.TargetRef,
				at(r.CreatedAt), labels(r))
		}
		return t.flush()
	})
}

// filter makes the queue's filter of the flags.
func (c runsListCmd) filter() (queue.Filter, error) {
	f := queue.Filter{Definition: c.Definition, Repository: c.Repository, Stuck: c.Stuck, Before: c.Before, Limit: c.Limit}
	if c.Limit < 1 || c.Limit > 1000 {
		return f, misuse("--limit: must be 1 to 1000")
	}
	for _, state := range c.State {
		if !slices.Contains(evidence.States(), evidence.State(state)) {
			return f, misuse("--state: %q is none; there are %v", state, evidence.States())
		}
		f.States = append(f.States, evidence.State(state))
	}
	if strings.Contains(c.Repository, ":") {
		repository, err := repotx.Canonical(c.Repository)
		if err != nil {
			return f, &usageError{err: err}
		}
		f.Repository = repository.ID
	}
	return f, nil
}

// labels are what must be seen of a run wherever it is shown.
func labels(r queue.Run) string {
	var out []string
	if r.Proof != "" {
		out = append(out, "proof:"+r.Proof)
	}
	if r.Attended {
		out = append(out, "attended:"+r.Operator)
	}
	return strings.Join(out, " ")
}
