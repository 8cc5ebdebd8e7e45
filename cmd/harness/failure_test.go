package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness"
	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/queue"
)

// A43: what a command ends with follows from the class of its error, and what nobody classified is an error.
func TestExitCodeFollowsTheError(t *testing.T) {
	t.Parallel()
	_, missing := os.Open("testdata/none")
	for name, c := range map[string]struct {
		err  error
		code evidence.ExitCode
	}{
		"nothing":             {nil, evidence.ExitCompleted},
		"how a run ended":     {endWith(evidence.ExitNotApplied), evidence.ExitNotApplied},
		"a run that is over":  {endWith(evidence.ExitCompleted), evidence.ExitCompleted},
		"usage":               {misuse("wrong"), evidence.ExitUsage},
		"wrapped usage":       {fmt.Errorf("command: %w", misuse("wrong")), evidence.ExitUsage},
		"definition error":    {evidence.Fail(evidence.StageEmit, evidence.CodeContractInvalid, "", nil), evidence.ExitRefused},
		"remote, at emission": {evidence.Fail(evidence.StageEmit, evidence.CodeRemoteUnreachable, "", nil), evidence.ExitUnavailable},
		"unknown profile":     {evidence.Fail(evidence.StageResolve, evidence.CodeProfileUnknown, "", nil), evidence.ExitRefused},
		"a failed part":       {evidence.Fail(evidence.StageSandbox, evidence.CodeSandboxCreateFailed, "", nil), evidence.ExitError},
		"no such code":        {evidence.Fail(evidence.StageSandbox, "invented", "", nil), evidence.ExitError},
		"no code":             {evidence.Fail(evidence.StageSandbox, "", "", nil), evidence.ExitError},
		"paused":              {fmt.Errorf("claim: %w", queue.ErrPaused), evidence.ExitUnavailable},
		"connection refused":  {fmt.Errorf("dial: %w", &net.OpError{Op: "dial", Err: errors.New("refused")}), evidence.ExitUnavailable},
		"time is up":          {context.DeadlineExceeded, evidence.ExitUnavailable},
		"no such file":        {missing, evidence.ExitError},
		"no such run":         {queue.ErrNotFound, evidence.ExitError},
		"a part":              {&harness.PartError{Part: harness.PartVault, Err: errors.New("login refused")}, evidence.ExitUnavailable},
		"schema":              {&harness.PartError{Part: harness.PartDatabase, Err: queue.ErrSchemaOlder}, evidence.ExitError},
		"export":              {fmt.Errorf("line 3: %w", evidence.ErrExport), evidence.ExitFailed},
		"anything else":       {errors.New("something"), evidence.ExitError},
	} {
		require.Equal(t, c.code, exitOf(c.err), name)
	}
	require.ErrorIs(t, missing, fs.ErrNotExist)
}

// A43: every exit code that any disposition leads to is in the table that operators read, once.
func TestEveryExitCodeIsExplained(t *testing.T) {
	t.Parallel()
	explained := map[evidence.ExitCode]int{}
	for _, e := range exitCodes() {
		explained[e.code]++
		require.NotEmpty(t, e.meaning)
	}
	need := []evidence.ExitCode{evidence.ExitError, evidence.ExitUsage}
	for _, stage := range evidence.Stages() {
		for _, code := range append(evidence.Codes(), "") {
			need = append(need, evidence.Dispose(stage, code).Exit)
		}
	}
	for _, state := range evidence.States() {
		for _, effect := range evidence.Effects() {
			for _, outcome := range evidence.Outcomes() {
				need = append(need, evidence.ExitOf(state, effect, outcome))
			}
		}
	}
	for _, code := range need {
		require.Equal(t, 1, explained[code], "exit code %d", code)
	}
}

func TestErrorsAreShownWithoutWhatTheyMayHide(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := streams{err: &out}
	code := s.report(errors.Join(
		evidence.Fail(evidence.StageEmit, evidence.CodeTriggerConflict, "k", errors.New("erased \x1b[2J and \u202e turned")),
		errors.New("second\rline")))
	require.Equal(t, evidence.ExitRefused, code)
	text := out.String()
	require.True(t, strings.HasPrefix(text, "harness: "), text)
	require.Contains(t, text, `\u001b[2J`)
	require.Contains(t, text, `\u202e`)
	require.Contains(t, text, "\n  second\\rline [trigger_conflict]\n")
	require.Contains(t, text, "\nnext: use another trigger key")
	require.NotContains(t, text, "\x1b")
}

func TestAnEndThatIsPrintedAlreadyIsNotExplained(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.Equal(t, evidence.ExitPartial, streams{err: &out}.report(endWith(evidence.ExitPartial)))
	require.Empty(t, out.String())
	closing := errors.Join(endWith(evidence.ExitPartial), errors.New("close: lost"))
	require.Equal(t, evidence.ExitPartial, streams{err: &out}.report(closing))
	require.True(t, strings.HasPrefix(out.String(), "harness: close: lost [unclassified]\n"), out.String())
	require.Equal(t, evidence.ExitUnknown, streams{err: &out}.report(&ended{evidence.ExitUnknown, errors.New("interrupted")}))
	require.Contains(t, out.String(), "harness: interrupted")
}
