package main

import (
	"context"
	"errors"
	"io/fs"
	"net"

	"github.com/alecthomas/kong"

	"github.com/rein-aharness/harness"
	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/queue"
)

// problem is what a command can meet that is no failure of a run: its code, the command's exit code, and what to do next. No code
// is one of evidence's, but where it means the same.
type problem struct {
	code string
	exit evidence.ExitCode
	next string
	met  func(error) bool
}

// The codes that a place in this command gives an error itself (coded).
const (
	codeConfiguration = "configuration_invalid"
	codeTrust         = "trust_invalid"
	codeEvidence      = "evidence_invalid"
	codeParts         = "part_not_ready"
	codeOutput        = "output_failed"
)

const doctorSays = "harness doctor says what is wrong with it and how to mend it"

// problems are all of them. The first that an error is decides; what is none of them is unclassified.
func problems() []problem {
	return []problem{
		{"usage", evidence.ExitUsage, "", isUsage},
		{"interrupted", evidence.ExitError, "the command was interrupted; what it had emitted goes on", is(context.Canceled)},
		{"schema_older", evidence.ExitError, "harness migrate", is(queue.ErrSchemaOlder)},
		{"schema_newer", evidence.ExitError, "use the harness binary of the version that migrated the database", is(queue.ErrSchemaNewer)},
		{
			"database_replaced", evidence.ExitError, "make sure that no worker of the old database still runs, then harness doctor --adopt",
			is(queue.ErrDatabaseReplaced),
		},
		{"run_unknown", evidence.ExitError, "harness runs list shows the runs that there are", is(queue.ErrNotFound)},
		{
			"definition_unknown", evidence.ExitError, "harness definitions list shows those that are applied", is(queue.ErrNoDefinition),
		},
		{
			"run_final", evidence.ExitError, "harness runs show RUN shows how it ended; harness runs retry RUN emits a successor",
			is(queue.ErrFinal),
		},
		{"run_not_claimable", evidence.ExitError, "harness runs show RUN says what the run waits for", is(queue.ErrNotClaimable)},
		{"remote_decides", evidence.ExitError, "harness runs show RUN shows what the remote has decided", is(harness.ErrRemoteDecides)},
		{
			string(evidence.CodePaused), evidence.ExitUnavailable, "harness doctor says who paused it and why; harness resume lets it go",
			is(queue.ErrPaused),
		},
		{
			string(evidence.CodeLeaseLost), evidence.ExitError, "harness runs show RUN shows who holds the run now; a reconciler settles it",
			is(queue.ErrLeaseLost),
		},
		{"database_unavailable", evidence.ExitUnavailable, doctorSays, ofPart(harness.PartDatabase)},
		{"vault_unavailable", evidence.ExitUnavailable, doctorSays, ofPart(harness.PartVault)},
		{"git_unavailable", evidence.ExitUnavailable, doctorSays, ofPart(harness.PartGit)},
		{"engine_unavailable", evidence.ExitUnavailable, doctorSays, ofPart(harness.PartEngine)},
		{codeConfiguration, evidence.ExitError, "correct the configuration; docs/configuration.md explains each field", withCode(codeConfiguration)},
		{codeTrust, evidence.ExitError, "correct the trust file, or name another with --trust", withCode(codeTrust)},
		{"export_malformed", evidence.ExitFailed, "export it again: harness evidence export RUN > FILE", is(evidence.ErrExport)},
		{codeEvidence, evidence.ExitFailed, "trust nothing of this run before it is known which check failed, and why", withCode(codeEvidence)},
		{codeParts, evidence.ExitUnavailable, "mend what the checks that failed say", withCode(codeParts)},
		{codeOutput, evidence.ExitError, "harness runs list shows what was emitted; the output's reader has gone, or its disk is full", withCode(codeOutput)},
		{"input_unreadable", evidence.ExitError, "name a file that is there and readable", isUnreadable},
		{"connection_failed", evidence.ExitUnavailable, "a part cannot be used; harness doctor says which and how to mend it", isConnection},
		{"time_is_up", evidence.ExitUnavailable, "try again; harness doctor says which part does not answer", is(context.DeadlineExceeded)},
	}
}

// problemOf is the problem that an error is. found is false for one that nobody classified.
func problemOf(err error) (p problem, found bool) {
	for _, p := range problems() {
		if p.met(err) {
			return p, true
		}
	}
	return problem{}, false
}

// coded is an error that is known for what it is where it arises.
type coded struct {
	code string
	err  error
}

func (e *coded) Error() string { return e.err.Error() }
func (e *coded) Unwrap() error { return e.err }

// as gives an error a code; nil stays nil.
func as(code string, err error) error {
	if err == nil {
		return nil
	}
	return &coded{code, err}
}

func withCode(code string) func(error) bool {
	return func(err error) bool {
		var c *coded
		return errors.As(err, &c) && c.code == code
	}
}

func is(target error) func(error) bool {
	return func(err error) bool { return errors.Is(err, target) }
}

func ofPart(part harness.Part) func(error) bool {
	return func(err error) bool {
		var p *harness.PartError
		return errors.As(err, &p) && p.Part == part
	}
}

func isUsage(err error) bool {
	var usage *usageError
	var parse *kong.ParseError
	return errors.As(err, &usage) || errors.As(err, &parse)
}

func isConnection(err error) bool {
	var network *net.OpError // not net.Error, which a missing file is too
	return errors.As(err, &network)
}

func isUnreadable(err error) bool {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Op != "write"
	}
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission)
}
