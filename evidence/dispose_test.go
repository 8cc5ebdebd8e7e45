package evidence_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
)

// constants returns the values of all constants of a type in this package's source, so that none is left out of a list.
func constants(t *testing.T, file, typ string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	require.NoError(t, err)
	var values []string
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if name, ok := spec.Type.(*ast.Ident); ok && name.Name == typ {
			for _, v := range spec.Values {
				text, err := strconv.Unquote(v.(*ast.BasicLit).Value)
				require.NoError(t, err)
				values = append(values, text)
			}
		}
		return true
	})
	require.NotEmpty(t, values)
	return values
}

func texts[T ~string](values []T) []string {
	var out []string
	for _, v := range values {
		out = append(out, string(v))
	}
	return out
}

// A43
func TestListsOfClosedSetsAreComplete(t *testing.T) {
	t.Parallel()
	require.ElementsMatch(t, constants(t, "code.go", "Code"), texts(evidence.Codes()))
	require.ElementsMatch(t, constants(t, "stage.go", "Stage"), texts(evidence.Stages()))
	require.ElementsMatch(t, constants(t, "stage.go", "Effect"), texts(evidence.Effects()))
	require.ElementsMatch(t, constants(t, "state.go", "State"), texts(evidence.States()))
	require.ElementsMatch(t, constants(t, "source.go", "Source"), texts(evidence.Sources()))
	require.ElementsMatch(t, constants(t, "kind.go", "Kind"), texts(evidence.Kinds()))
	require.ElementsMatch(t, constants(t, "dispose.go", "Outcome"), texts(evidence.Outcomes()))
	require.ElementsMatch(t, constants(t, "report.go", "Result"), texts(evidence.Results()))
}

// The table has one row for a code in a stage, every code has one, and an unclassified failure has one in every stage, so that no
// failure is without. A43
func TestNoFailureIsWithoutARow(t *testing.T) {
	t.Parallel()
	type place struct {
		stage evidence.Stage
		code  evidence.Code
	}
	seen := map[place]int{}
	for _, row := range evidence.Table() {
		require.NotEmpty(t, row.Stages, row.Code)
		for _, stage := range row.Stages {
			seen[place{stage, row.Code}]++
			require.Equal(t, row.Outcome, evidence.Dispose(stage, row.Code).Outcome, "%s %s", stage, row.Code)
		}
	}
	for at, n := range seen {
		require.Equal(t, 1, n, "rows for %s %s", at.stage, at.code)
	}
	for _, stage := range evidence.Stages() {
		require.Contains(t, seen, place{stage, evidence.CodeUnclassified})
	}
	var inOrder []string
	for _, code := range evidence.Codes() {
		inOrder = append(inOrder, string(code))
	}
	require.Equal(t, constants(t, "code.go", "Code"), inOrder, "the table follows code.go, and leaves nothing out")
}

// Every stage with every code has exactly one disposition, and it is coherent. A8, A43
func TestEveryFailureHasItsDisposition(t *testing.T) {
	t.Parallel()
	for _, stage := range evidence.Stages() {
		for _, code := range evidence.Codes() {
			d := evidence.Dispose(stage, code)
			require.Contains(t, evidence.Outcomes(), d.Outcome, "%s %s", stage, code)
			require.NotEqual(t, evidence.OutcomeCompleted, d.Outcome, "%s %s: a failure is never a success", stage, code)
			require.NotEqual(t, evidence.StateCompleted, d.State)
			require.NotEqual(t, evidence.EffectConfirmed, d.Effect)
			require.NotEqual(t, evidence.ExitCompleted, d.Exit)
			if d.State.Final() {
				require.True(t, d.Effect.Final(), "%s %s closes with an open effect", stage, code)
				require.Equal(t, evidence.RetryNone, d.Retry)
				require.False(t, d.Reconcile)
			}
			if d.Reconcile {
				require.False(t, d.Effect.Final(), "%s %s: what is left to the remote is not known", stage, code)
			}
			if d.Retry == evidence.RetryPoll {
				before := []evidence.Stage{evidence.StageEmit, evidence.StageClaim, evidence.StageResolve, evidence.StageAdmit}
				require.Contains(t, before, stage, "%s: a run that began is not retried", code)
			}
		}
	}
}

// The table of failures, row by row. A8, A14, A43, A44, B32, B34
func TestFailuresLeadWhereTheTableSays(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		stage evidence.Stage
		code  evidence.Code
		want  evidence.Outcome
	}{
		{evidence.StageEmit, evidence.CodeProfileMalformed, evidence.OutcomeDefinitionError},
		{evidence.StageEmit, evidence.CodeContractInvalid, evidence.OutcomeDefinitionError},
		{evidence.StageEmit, evidence.CodeUnclassified, evidence.OutcomeDefinitionError},
		{evidence.StageEmit, evidence.CodeRemoteUnreachable, evidence.OutcomeRetryPoll},
		{evidence.StageResolve, evidence.CodeProfileUnknown, evidence.OutcomeRefused},
		{evidence.StageResolve, evidence.CodeProfileDisabled, evidence.OutcomeRefused},
		{evidence.StageResolve, evidence.CodeProfileIncompatible, evidence.OutcomeRefused},
		{evidence.StageResolve, evidence.CodeProfileBlocked, evidence.OutcomeRefused},
		{evidence.StageResolve, evidence.CodeActorInvalid, evidence.OutcomeRefused},
		{evidence.StageSandbox, evidence.CodeReachabilityAmbiguous, evidence.OutcomeRefused},
		{evidence.StageSandbox, evidence.CodeSandboxCreateFailed, evidence.OutcomeFailed},
		{evidence.StageSession, evidence.CodeSessionStartFailed, evidence.OutcomeFailed},
		{evidence.StageSession, evidence.CodeSessionFailed, evidence.OutcomeFailed},
		{evidence.StageSession, evidence.CodeCredentialFailed, evidence.OutcomeFailed},
		{evidence.StageSession, evidence.CodeSandboxLost, evidence.OutcomeFailed},
		{evidence.StageTeardown, evidence.CodeTeardownFailed, evidence.OutcomeFailed},
		{evidence.StageClaim, evidence.CodeStoreFailed, evidence.OutcomeRetryPoll},
		{evidence.StageClaim, evidence.CodePaused, evidence.OutcomeRetryPoll},
		{evidence.StageSession, evidence.CodeStoreFailed, evidence.OutcomeRetryLease},
		{evidence.StageAccept, evidence.CodeStoreFailed, evidence.OutcomeRetryLease},
		{evidence.StageAccept, evidence.CodePaused, evidence.OutcomeNotApplied},
		{evidence.StageResolve, evidence.CodeStoreFailed, evidence.OutcomeGiveBack},
		{evidence.StageResolve, evidence.CodeWorkerLost, evidence.OutcomeGiveBack},
		{evidence.StageSession, evidence.CodeWorkerLost, evidence.OutcomeFailed},
		{evidence.StageSandbox, evidence.CodeProfileBlocked, evidence.OutcomeRefused},
		{evidence.StageAccept, evidence.CodeProfileBlocked, evidence.OutcomeNotApplied},
		{evidence.StageAccept, evidence.CodePinMismatch, evidence.OutcomeNotApplied},
		{evidence.StagePreflight, evidence.CodePathInvalid, evidence.OutcomeRefused},
		{evidence.StageCapture, evidence.CodePathInvalid, evidence.OutcomeNotApplied},
		{evidence.StageSession, evidence.CodeLeaseLost, evidence.OutcomeReconcile},
		{evidence.StageAccept, evidence.CodeLeaseLost, evidence.OutcomeReconcile},
		{evidence.StageAdmit, evidence.CodeAdmissionDenied, evidence.OutcomeRefused},
		{evidence.StageAdmit, evidence.CodeApprovalRequired, evidence.OutcomeWaitApproval},
		{evidence.StagePreflight, evidence.CodeRemoteUnsupported, evidence.OutcomeRefused},
		{evidence.StagePreflight, evidence.CodeRemoteUnreachable, evidence.OutcomeFailed},
		{evidence.StageCapture, evidence.CodeFileUnreadable, evidence.OutcomeFailed},
		{evidence.StageSession, evidence.CodeCancelled, evidence.OutcomeCancelled},
		{evidence.StageReconcile, evidence.CodeDeadlinePassed, evidence.OutcomeExpired},
		{evidence.StagePreflight, evidence.CodeBaselineMoved, evidence.OutcomeNotApplied},
		{evidence.StageAccept, evidence.CodePathNotGranted, evidence.OutcomeNotApplied},
		{evidence.StageAccept, evidence.CodeCredentialInChange, evidence.OutcomeNotApplied},
		{evidence.StageAccept, evidence.CodePublicationUnclear, evidence.OutcomeSettle},
		{evidence.StageAccept, evidence.CodeRemoteUnreachable, evidence.OutcomeSettle},
		{evidence.StageAccept, evidence.CodePublicationPartial, evidence.OutcomePartial},
		{evidence.StageClose, evidence.CodeCloseFailed, evidence.OutcomeSettle},
		{evidence.StageClose, evidence.CodeStoreFailed, evidence.OutcomeSettle},
		{evidence.StageClose, evidence.CodeSigningFailed, evidence.OutcomeSettle},
		{evidence.StageDeliver, evidence.CodeDeliveryFailed, evidence.OutcomeDeliverAgain},
		{evidence.StageReconcile, evidence.CodeRemoteUnreachable, evidence.OutcomeWaitExternal},
		{evidence.StageReconcile, evidence.CodeCredentialFailed, evidence.OutcomeWaitExternal},
		{evidence.StageReconcile, evidence.CodeUnclassified, evidence.OutcomeWaitExternal},
		{evidence.StageReconcile, evidence.CodeSettleUnknown, evidence.OutcomeWaitExternal},
		{evidence.StageReconcile, evidence.CodeWorkerLost, evidence.OutcomeFailed},
		{evidence.StageAccept, evidence.CodePublicationRefused, evidence.OutcomeNotApplied},
		{evidence.StageSession, "made_up", evidence.OutcomeFailed},
		{evidence.StageSession, evidence.CodeTriggerConflict, evidence.OutcomeFailed},
		{evidence.StageClose, "made_up", evidence.OutcomeSettle},
		{evidence.StageReconcile, "made_up", evidence.OutcomeWaitExternal},
		{"made_up", evidence.CodeStoreFailed, evidence.OutcomeFailed},
		{"", evidence.CodeApprovalRequired, evidence.OutcomeFailed},
		{evidence.StageClose, "", evidence.OutcomeCompleted},
	} {
		require.Equal(t, c.want, evidence.Dispose(c.stage, c.code).Outcome, "%s %s", c.stage, c.code)
	}
}

func TestEachEndOfARunHasItsExitCode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		state   evidence.State
		effect  evidence.Effect
		outcome evidence.Outcome
		want    evidence.ExitCode
	}{
		{evidence.StateCompleted, evidence.EffectConfirmed, evidence.OutcomeCompleted, evidence.ExitCompleted},
		{evidence.StateCompleted, evidence.EffectNotDispatched, evidence.OutcomeCompleted, evidence.ExitCompleted},
		{evidence.StateFailed, evidence.EffectNotDispatched, evidence.OutcomeRefused, evidence.ExitRefused},
		{evidence.StateFailed, evidence.EffectNotDispatched, evidence.OutcomeFailed, evidence.ExitFailed},
		{evidence.StateFailed, evidence.EffectNotApplied, evidence.OutcomeFailed, evidence.ExitFailed},
		{evidence.StateFailed, evidence.EffectNotApplied, evidence.OutcomeNotApplied, evidence.ExitNotApplied},
		{evidence.StateCancelled, evidence.EffectNotApplied, evidence.OutcomeCancelled, evidence.ExitCancelled},
		{evidence.StateExpired, evidence.EffectNotApplied, evidence.OutcomeExpired, evidence.ExitExpired},
		{evidence.StateWaitingExternal, evidence.EffectUnknown, "", evidence.ExitUnknown},
		{evidence.StateWaitingExternal, evidence.EffectPartial, "", evidence.ExitPartial},
		{evidence.StateWaitingApproval, evidence.EffectNotDispatched, "", evidence.ExitUnknown},
		{evidence.StateRunning, evidence.EffectNotDispatched, "", evidence.ExitUnknown},
		{evidence.StateCompleted, evidence.EffectUnknown, "", evidence.ExitUnknown},
		{evidence.StateFailed, evidence.EffectConfirmed, "made_up", evidence.ExitFailed},
	} {
		require.Equal(t, c.want, evidence.ExitOf(c.state, c.effect, c.outcome), "%+v", c)
	}
}

// A43
func TestWhatNobodyClassifiedFailsClosed(t *testing.T) {
	t.Parallel()
	require.Equal(t, evidence.CodeUnclassified, evidence.CodeOf(strconv.ErrRange))
	d := evidence.Dispose(evidence.StageSession, evidence.CodeUnclassified)
	require.Equal(t, evidence.StateFailed, d.State)
	require.Equal(t, evidence.RetryNone, d.Retry)
}
