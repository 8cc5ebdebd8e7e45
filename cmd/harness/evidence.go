package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/google/uuid"

	"github.com/rein-aharness/harness"
	"github.com/rein-aharness/harness/evidence"
)

type evidenceCmd struct {
	Show   evidenceShowCmd   `cmd:"" help:"Show the facts of a run."`
	Verify evidenceVerifyCmd `cmd:"" help:"Recompute everything about a run that can be recomputed."`
	Export evidenceExportCmd `cmd:"" help:"Write the whole record of a run to standard output."`
}

func (evidenceCmd) Help() string {
	return `The evidence of a run is a chain of facts, each bound to the one before, and a signed statement about all of them.`
}

type evidenceShowCmd struct {
	RunID string `arg:"" name:"run" help:"The run's id." placeholder:"RUN"`
}

func (evidenceShowCmd) Help() string {
	return `Shows the facts in their order, each with its stage, its source and its body. It verifies nothing.

Example:

    harness evidence show RUN --json`
}

// evidenceView is the JSON of evidence show.
type evidenceView struct {
	Run      string          `json:"run"`
	Verified bool            `json:"verified"` // always false here: evidence verify is what verifies
	Facts    []evidence.Fact `json:"facts"`    // with their digests
}

func (c evidenceShowCmd) Run(ctx context.Context, a *app) error {
	return a.with(ctx, harness.Options{}, func(h *harness.Harness) error {
		run, err := h.Store().Run(ctx, c.RunID)
		if err != nil {
			return err
		}
		facts, err := h.Store().Facts(ctx, run.ID)
		if err != nil {
			return err
		}
		if a.JSON {
			return a.printJSON(evidenceView{Run: run.ID, Facts: facts})
		}
		for _, f := range facts {
			err := a.printf("%d  %s  epoch %d  %s  %s  %s\n    %s\n", f.Seq, clean(f.At, maxCell), f.Epoch, clean(string(f.Stage), maxCell),
				clean(string(f.Kind), maxCell), clean(string(f.Source), maxCell), clean(string(f.Body), len(f.Body)*longestEscape))
			if err != nil {
				return err
			}
		}
		signed := "not signed: the run is not closed"
		if len(run.Statement) > 0 {
			signed = "signed"
		}
		return a.printf("%d facts, %s; not verified here: harness evidence verify %s\n", len(facts), signed, clean(run.ID, maxCell))
	})
}

type evidenceVerifyCmd struct {
	Subject string `arg:"" name:"run-or-file" help:"A run's id, or the file of an export; - is standard input." placeholder:"RUN|FILE"`
	Trust   string `help:"The trust file. Default: signing.trust_file of the configuration." placeholder:"FILE"`
	Offline bool   `help:"Do not ask the remote."`
}

func (evidenceVerifyCmd) Help() string {
	return `Checks the chain of facts, the signature against the trust file, the statement against the facts, the pins, the contract, the profile,
the commit and the pack, and then, unless --offline, the fence and the branch on the remote. Each check is one line. It passes when
nothing fails and everything that any run needs was shown; a branch that went on legitimately is superseded, which is no failure.
It exits with 4 when it does not pass.

A file is always verified offline, and with --trust needs neither configuration nor database. Keep the trust file yourself: what
the export says about its key proves nothing.

Examples:

    harness evidence verify RUN
    harness evidence verify RUN --offline --json
    harness evidence verify run.evidence --trust trust.yaml`
}

// verification is the JSON of evidence verify.
type verification struct {
	Run    string           `json:"run"`
	OK     bool             `json:"ok"`
	Checks []evidence.Check `json:"checks"`
}

func (c evidenceVerifyCmd) Run(ctx context.Context, a *app) error {
	report, err := c.verify(ctx, a)
	if err != nil {
		return err
	}
	if a.JSON {
		err = a.printJSON(verification{Run: report.Run, OK: report.OK(), Checks: report.Checks})
	} else {
		err = a.printReport(report)
	}
	if err != nil || report.OK() {
		return err
	}
	return as(codeEvidence, errors.New("the evidence does not verify"))
}

// verify makes the report. What has the form of a run's id is a run, and everything else a file.
func (c evidenceVerifyCmd) verify(ctx context.Context, a *app) (evidence.Report, error) {
	if uuid.Validate(c.Subject) != nil {
		return c.verifyFile(a)
	}
	var report evidence.Report
	err := a.with(ctx, harness.Options{Vault: !c.Offline}, func(h *harness.Harness) error {
		trust, err := c.trust(h.Config().Signing.TrustFile)
		if err != nil {
			return err
		}
		report, err = h.Verify(ctx, c.Subject, harness.VerifyOptions{Trust: trust, Remote: !c.Offline})
		return err
	})
	return report, err
}

func (c evidenceVerifyCmd) trust(configured string) (evidence.Trust, error) {
	trust, err := evidence.LoadTrust(cmp.Or(c.Trust, configured))
	return trust, as(codeTrust, err)
}

func (c evidenceVerifyCmd) verifyFile(a *app) (evidence.Report, error) {
	configured := ""
	if c.Trust == "" {
		config, err := a.config()
		if err != nil {
			return evidence.Report{}, err
		}
		configured = config.Signing.TrustFile
	}
	trust, err := c.trust(configured)
	if err != nil {
		return evidence.Report{}, err
	}
	export, err := readExport(a.in, c.Subject)
	if err != nil {
		return evidence.Report{}, err
	}
	return evidence.VerifyOffline(export.Record, trust), nil
}

func readExport(in io.Reader, path string) (evidence.Export, error) {
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return evidence.Export{}, fmt.Errorf("read the export: %w", err)
		}
		defer f.Close()
		in = f
	}
	return evidence.ReadExport(in)
}

func (a *app) printReport(r evidence.Report) error {
	t := newTable(a.out)
	for _, c := range r.Checks {
		t.row(strings.ReplaceAll(string(c.Result), "_", " "), string(c.Scope), c.Name, c.Detail)
	}
	if err := t.flush(); err != nil {
		return err
	}
	verdict := "the evidence verifies"
	if !r.OK() {
		verdict = "the evidence does NOT verify"
	}
	return a.printf("run %s: %s\n", clean(r.Run, maxCell), verdict)
}

type evidenceExportCmd struct {
	RunID string `arg:"" name:"run" help:"The run's id." placeholder:"RUN"`
}

func (evidenceExportCmd) Help() string {
	return `Writes everything that evidence verify needs offline, as lines of canonical JSON: facts, signed statement, contract, profile, commit
and pack. It holds no secret value. --json changes nothing.

Example:

    harness evidence export RUN > run.evidence
    harness evidence verify run.evidence --trust trust.yaml`
}

func (c evidenceExportCmd) Run(ctx context.Context, a *app) error {
	return a.with(ctx, harness.Options{}, func(h *harness.Harness) error {
		record, err := h.Record(ctx, c.RunID)
		if err != nil {
			return err
		}
		trust, err := evidence.LoadTrust(h.Config().Signing.TrustFile)
		if err != nil && !errors.Is(err, os.ErrNotExist) { // the key it may add is only a hint
			return err
		}
		return evidence.WriteExport(a.out, record, trust)
	})
}
