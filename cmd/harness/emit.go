package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/rein-aharness/harness"
	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/queue"
)

// definitionFlags choose a definition and say what makes this run of it.
type definitionFlags struct {
	File         string `short:"f" name:"file" required:"" help:"The definition's file; - is standard input." placeholder:"FILE"`
	OperationKey string `help:"Identifies the change across attempts. Default: the trigger key." placeholder:"KEY"`
	Supersedes   string `help:"The run whose attempt this one repeats." placeholder:"RUN"`
	Proof        string `help:"Label this run as a bounded proof of a profile that is not verified yet." placeholder:"LABEL"`
}

// request reads the definition and makes the request of this occasion.
func (f definitionFlags) request(in io.Reader, o queue.Occasion) (queue.Request, error) {
	data, err := readInput(in, f.File)
	if err != nil {
		return queue.Request{}, fmt.Errorf("read the definition: %w", err)
	}
	definition, err := queue.ParseDefinition(data)
	if err != nil {
		return queue.Request{}, err
	}
	o.OperationKey, o.Supersedes, o.Proof = f.OperationKey, f.Supersedes, f.Proof
	r := definition.Request(o)
	return r, r.Validate()
}

// maxInput bounds what is read of a file; what reads it refuses far less.
const maxInput = 1 << 20

func readInput(in io.Reader, path string) ([]byte, error) {
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	return io.ReadAll(io.LimitReader(in, maxInput+1))
}

type emitCmd struct {
	definitionFlags
	TriggerKey string `required:"" help:"Identifies the occasion: the same key never gives a second run." placeholder:"KEY"`
	Wait       bool   `help:"Follow the run to its end, and exit by how it ended." xor:"then"`
	DryRun     bool   `help:"Resolve and check only; emit nothing." xor:"then"`
}

func (emitCmd) Help() string {
	return `Makes a run of a definition and leaves it to the workers. The repository's base ref and the profile are resolved and pinned now.
The same trigger key with the same request finds the run that is there already and resolves nothing; with another request it is
refused.

With --dry-run it prints what the run would be pinned to and what it would be refused for, and exits with 3 if anything.

Examples:

    harness emit -f gofumpt.yaml --trigger-key nightly-2026-01-31
    harness emit -f gofumpt.yaml --trigger-key ticket-7 --wait
    harness emit -f gofumpt.yaml --trigger-key ticket-7 --dry-run --json`
}

// emitted is the JSON of an emission.
type emitted struct {
	Run     runView `json:"run"`
	Created bool    `json:"created"` // false: the trigger key had this run already
}

func (c emitCmd) Run(ctx context.Context, a *app) error {
	request, err := c.request(a.in, queue.Occasion{TriggerKey: c.TriggerKey})
	if err != nil {
		return err
	}
	return a.with(ctx, harness.Options{Vault: true}, func(h *harness.Harness) error {
		if c.DryRun {
			return a.preview(ctx, h, request)
		}
		run, created, err := h.Emit(ctx, request, "")
		if err != nil {
			return err
		}
		return a.follow(ctx, h, run, created, c.Wait)
	})
}

// follow reports an emission and, if asked, waits for the run's end.
func (a *app) follow(ctx context.Context, h *harness.Harness, run queue.Run, created, wait bool) error {
	if !a.JSON {
		if err := a.sayEmitted(run, created); err != nil {
			return err
		}
	}
	if !wait {
		if a.JSON {
			return a.printJSON(emitted{Run: viewOf(run), Created: created})
		}
		return nil
	}
	run, err := a.wait(ctx, h, run)
	if err != nil {
		return err
	}
	if a.JSON {
		if err := a.printJSON(emitted{Run: viewOf(run), Created: created}); err != nil {
			return err
		}
	} else if err := a.sayEnd(run); err != nil {
		return err
	}
	return endWith(exitOfRun(run))
}

func (a *app) sayEmitted(run queue.Run, created bool) error {
	if created {
		return a.printf("run %s emitted\n", clean(run.ID, maxCell))
	}
	return a.printf("run %s exists already for this trigger key: nothing was emitted; it is %s\n", clean(run.ID, maxCell), run.State)
}

// exitOfRun is the exit code for a run as it is.
func exitOfRun(run queue.Run) evidence.ExitCode {
	return evidence.ExitOf(run.State, run.Effect, run.Disposition)
}

// preview is the JSON of a dry run.
type preview struct {
	Pins      queue.Pins `json:"pins"`
	Readiness string     `json:"readiness"`
	Refusals  []string   `json:"refusals"` // empty: a run could start now
}

func (a *app) preview(ctx context.Context, h *harness.Harness, request queue.Request) error {
	found, err := h.Preview(ctx, request)
	if err != nil {
		return err
	}
	view := preview{Pins: found.Pins, Readiness: string(found.Readiness), Refusals: []string{}}
	if found.Refusal != nil {
		view.Refusals = lines(found.Refusal.Error())
	}
	if a.JSON {
		err = a.printJSON(view)
	} else {
		err = a.printPreview(view)
	}
	if err != nil || found.Refusal == nil {
		return err
	}
	return endWith(evidence.ExitRefused)
}

func (a *app) printPreview(view preview) error {
	if err := a.printf("nothing was emitted; a run would be pinned to\n"); err != nil {
		return err
	}
	t := newTable(a.out)
	for _, pin := range pinRows(view.Pins) {
		t.field(pin[0], pin[1])
	}
	t.field("readiness", view.Readiness)
	for _, refusal := range view.Refusals {
		t.row("would be refused", refusal)
	}
	return t.flush()
}

func pinRows(p queue.Pins) [][2]string {
	return [][2]string{
		{"repository", p.Repository},
		{"baseline", p.Baseline},
		{"profile", p.Profile},
		{"rein", p.Rein},
		{"model", p.Model},
		{"tools", p.Tools},
		{"sandbox", p.Sandbox},
		{"credentials", p.Credentials},
	}
}
