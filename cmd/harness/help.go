package main

import (
	"strconv"
	"strings"

	"github.com/rein-aharness/harness/evidence"
)

type helpCmd struct {
	Topic []string `arg:"" optional:"" help:"A command, or exit-codes." placeholder:"TOPIC"`
}

func (helpCmd) Help() string {
	return `Examples:

    harness help exit-codes
    harness help runs settle`
}

func (c helpCmd) Run(a *app) error {
	if strings.Join(c.Topic, " ") != "exit-codes" {
		_, err := a.parser.Parse(append(c.Topic, "--help"))
		return err
	}
	t := newTable(a.out)
	for _, e := range exitCodes() {
		t.row(strconv.Itoa(int(e.code)), e.meaning)
	}
	return t.flush()
}

// exitCode is one row of the table of exit codes.
type exitCode struct {
	code    evidence.ExitCode
	meaning string
}

// exitCodes are what a command can end with. A command about a run ends by how the run ended.
func exitCodes() []exitCode {
	return []exitCode{
		{evidence.ExitCompleted, "done; of a run: completed, the change is confirmed or nothing had to change"},
		{evidence.ExitError, "the command itself failed; it says nothing about a run"},
		{evidence.ExitUsage, "the command line is wrong"},
		{evidence.ExitRefused, "refused before any change could be made, or nothing was emitted, or a profile is not ready"},
		{evidence.ExitFailed, "the run failed, or the evidence does not verify"},
		{evidence.ExitCancelled, "the run was cancelled"},
		{evidence.ExitNotApplied, "the change was made and not applied, as when the baseline had moved"},
		{evidence.ExitUnknown, "the run is not over, or its effect is not known yet"},
		{evidence.ExitPartial, "the fence moved and the branch did not; an operator decides"},
		{evidence.ExitUnavailable, "a part is not there or is paused; the same command may succeed later"},
		{evidence.ExitExpired, "the run's deadline passed before it could start"},
	}
}
