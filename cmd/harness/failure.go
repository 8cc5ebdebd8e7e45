package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/rein-aharness/harness/evidence"
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

// exitOf gives the exit code of a command by its error. How a run ended comes as an *ended; another failure is the command's own.
func exitOf(err error) evidence.ExitCode {
	var end *ended
	if err == nil {
		return evidence.ExitCompleted
	}
	if errors.As(err, &end) {
		return end.code
	}
	if failure, ok := failureOf(err); ok {
		if code := evidence.Dispose(failure.Stage, failure.Code).Exit; code == evidence.ExitRefused || code == evidence.ExitUnavailable {
			return code
		}
		return evidence.ExitError
	}
	if p, ok := problemOf(err); ok {
		return p.exit
	}
	return evidence.ExitError
}

// failureOf finds the failure of a run's chain that an error is. A code that there is not counts as none.
func failureOf(err error) (*evidence.Failure, bool) {
	var failure *evidence.Failure
	return failure, errors.As(err, &failure) && slices.Contains(evidence.Codes(), failure.Code)
}

// codeOf is the code that an error is shown with, each of which has a section in docs/errors.md.
func codeOf(err error) string {
	if failure, ok := failureOf(err); ok {
		return string(failure.Code)
	}
	if p, ok := problemOf(err); ok {
		return p.code
	}
	return string(evidence.CodeUnclassified)
}

// explain prints an error with its code, what to do next, and where to read more. An error without a text was explained already.
func (s streams) explain(err error) {
	text := lines(err.Error())
	if len(text) == 0 {
		return
	}
	code := codeOf(err)
	say(s.err, "harness: %s [%s]\n", strings.Join(text, "\n  "), code)
	s.advise(advice(err), code)
}

// advise prints what to do next, and where to read more about a code.
func (s streams) advise(next, code string) {
	say(s.err, "next: %s\nmore: harness help errors %s\n", next, code)
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

// advice says what to do about an error. It is never empty.
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
	if failure, ok := failureOf(err); ok {
		return cmp.Or(adviceFor(failure.Code), "harness doctor checks every part")
	}
	if p, ok := problemOf(err); ok {
		return p.next
	}
	return "harness doctor checks every part"
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
		return "harness profiles check REF --repository URL says what is missing, and records what is not"
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
		return "harness runs retry RUN emits a successor, on the base ref as it is now; a target ref that exists already needs another name first"
	case evidence.CodePathNotGranted, evidence.CodePathProtected:
		return "correct what the session does, or grant the path in definition, profile and .harness.yaml"
	default:
		return ""
	}
}
