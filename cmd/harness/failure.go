package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/queue"
)

// usageError is a command line that is wrong, beyond what kong can see.
type usageError struct {
	err     error
	command string // whose help says how it should be
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// misuse makes a usageError.
func misuse(format string, args ...any) error { return &usageError{err: fmt.Errorf(format, args...)} }

// ended carries an exit code that comes from how a run, a check or a verification ended. Without an error in it everything is
// printed already, and its text is empty.
type ended struct {
	code evidence.ExitCode
	err  error
}

func (e *ended) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *ended) Unwrap() error { return e.err }

// endWith is the error of a command that has said everything, or nil when there is nothing to report.
func endWith(code evidence.ExitCode) error {
	if code == evidence.ExitCompleted {
		return nil
	}
	return &ended{code: code}
}

// unavailable marks an error of a part that could not be reached or used. A schema of another version is not that: waiting does
// not help.
func unavailable(err error) error {
	if err == nil || errors.Is(err, queue.ErrSchemaOlder) || errors.Is(err, queue.ErrSchemaNewer) {
		return err
	}
	return &ended{evidence.ExitUnavailable, err}
}

// exitOf gives the exit code of a command by its error. How a run ended comes as an *ended; another failure is the command's own.
func exitOf(err error) evidence.ExitCode {
	var end *ended
	var usage *usageError
	var parse *kong.ParseError
	var failure *evidence.Failure
	var network *net.OpError // not net.Error, which a missing file is too
	switch {
	case err == nil:
		return evidence.ExitCompleted
	case errors.As(err, &end):
		return end.code
	case errors.As(err, &usage), errors.As(err, &parse):
		return evidence.ExitUsage
	case errors.As(err, &failure):
		if code := evidence.Dispose(failure.Stage, failure.Code).Exit; code == evidence.ExitRefused || code == evidence.ExitUnavailable {
			return code
		}
		return evidence.ExitError
	case errors.Is(err, evidence.ErrExport):
		return evidence.ExitFailed // what was cut off or altered does not verify
	case errors.Is(err, queue.ErrPaused), errors.Is(err, context.DeadlineExceeded), errors.As(err, &network):
		return evidence.ExitUnavailable
	default:
		return evidence.ExitError
	}
}

// explain prints an error, its code, and one line about what to do next. An error without a text was explained already.
func (s streams) explain(err error) {
	text := lines(err.Error())
	if len(text) == 0 {
		return
	}
	code := ""
	var failure *evidence.Failure
	if errors.As(err, &failure) {
		code = fmt.Sprintf(" [%s]", failure.Code)
	}
	say(s.err, "harness: %s%s\n", strings.Join(text, "\n  "), code)
	if next := advice(err); next != "" {
		say(s.err, "next: %s\n", next)
	}
}

// lines takes an error's text, which may be several joined errors, apart, and makes each line that is not empty safe to show.
func lines(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSuffix(line, "\n"); line != "" {
			out = append(out, clean(line, maxErrorLine))
		}
	}
	return out
}

const maxErrorLine = 2048

// say writes to standard error. When that fails there is nowhere left to say so.
func say(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }

// advice says what to do about an error.
func advice(err error) string {
	var parse *kong.ParseError
	if errors.As(err, &parse) {
		command := "harness"
		if parse.Context != nil && parse.Context.Selected() != nil {
			command = parse.Context.Selected().FullPath()
		}
		return command + " --help"
	}
	var usage *usageError
	if errors.As(err, &usage) {
		return usage.command + " --help"
	}
	for _, known := range []struct {
		is   error
		next string
	}{
		{queue.ErrNotFound, "harness runs list shows the runs that there are"},
		{queue.ErrPaused, "harness doctor says who paused it and why; harness resume lets it go"},
		{queue.ErrFinal, "harness runs show RUN shows how it ended; harness runs retry RUN emits a successor"},
		{queue.ErrNotClaimable, "harness runs show RUN says what the run waits for"},
		{queue.ErrDatabaseReplaced, "make sure that no worker of the old database still runs, then harness doctor --adopt"},
		{queue.ErrSchemaOlder, "harness migrate"},
		{queue.ErrSchemaNewer, "use the harness binary of the version that migrated the database"},
		{context.Canceled, "the command was interrupted; what it had emitted goes on"},
	} {
		if errors.Is(err, known.is) {
			return known.next
		}
	}
	var failure *evidence.Failure
	if errors.As(err, &failure) {
		if next := adviceFor(failure.Code); next != "" {
			return next
		}
		return "harness doctor checks every part"
	}
	switch {
	case exitOf(err) == evidence.ExitUnavailable:
		return "a part cannot be used; harness doctor says which and how to mend it"
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return "name a file that is there and readable"
	}
	return ""
}

// adviceFor says what to do about a code. Empty: what to do depends on the run, or on the part that failed.
func adviceFor(code evidence.Code) string {
	switch code {
	case evidence.CodeContractInvalid, evidence.CodeRepositoryMalformed, evidence.CodeRepositoryMismatch, evidence.CodeRefNotGranted:
		return "correct the definition; nothing was emitted"
	case evidence.CodeValueInContract:
		return "take the value out: a secret has no place in a definition or profile; name a Vault route in the profile"
	case evidence.CodeProfileMalformed:
		return "harness profiles digest FILE prints the exact reference of a profile"
	case evidence.CodeTriggerConflict:
		return "use another trigger key: this one belongs to a run of another request"
	case evidence.CodeOperationConflict:
		return "use another operation key: this one belongs to another change"
	case evidence.CodeBaselineUnresolved, evidence.CodeRepositoryEmpty:
		return "make sure that base_ref exists on the remote"
	case evidence.CodeSuccessorNotAllowed:
		return "harness runs show RUN: only a run whose effect is not_dispatched or not_applied may have a successor"
	case evidence.CodeProfileUnknown:
		return "harness profiles publish; harness profiles list shows what is published"
	case evidence.CodeProfileDigestMismatch:
		return "harness profiles list shows the digest that is published under this version"
	case evidence.CodeProfileImmutable:
		return "give the changed profile a new version"
	case evidence.CodeProfileBlocked, evidence.CodeProfileDisabled:
		return "harness profiles show REF says who said so and why"
	case evidence.CodeProfileUnverified, evidence.CodeProfileNotReady:
		return "harness profiles check REF --repository URL"
	case evidence.CodeProfileIncompatible, evidence.CodeReachabilityAmbiguous:
		return "correct the profile and publish it under a new version"
	case evidence.CodeImageMissing, evidence.CodeRuntimeMissing, evidence.CodeLimitNotEnforced:
		return "harness doctor shows what this engine has"
	case evidence.CodeManifestMissing, evidence.CodeManifestMalformed, evidence.CodeGrantEmpty:
		return "correct .harness.yaml in the repository, at the base ref"
	case evidence.CodeRemoteUnsupported:
		return "the remote has no atomic updates; only a definition that waives fencing may use it"
	case evidence.CodeRemoteUnreachable, evidence.CodeRemoteDenied:
		return "check the repository's URL and the profile's publish route; harness profiles check REF --repository URL"
	case evidence.CodeCredentialFailed, evidence.CodeRevocationFailed:
		return "harness doctor checks the way to Vault and its routes"
	case evidence.CodeBaselineMoved:
		return "harness runs retry RUN emits a successor, on the base ref as it is now"
	case evidence.CodePathNotGranted, evidence.CodePathProtected:
		return "correct what the session does, or grant the path in definition, profile and .harness.yaml"
	default:
		return ""
	}
}
