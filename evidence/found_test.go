package evidence_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
)

// lostSteps are those of a run that was set back to before its attempt, and whose commit was found at the remote.
func lostSteps() []step {
	observed := evidence.SourceObserved
	return []step{
		goodSteps()[0],
		{1 << 20, evidence.StageReconcile, observed, evidence.Claimed{WorkerID: "w2", Owner: "w2/n"}},
		{1 << 20, evidence.StageReconcile, observed, evidence.Found{
			By: "fence", Transaction: "tx-1", Profile: "codemod@1.0.0#" + digestOf("4"), Commit: commitOf("c"), Tree: commitOf("d"), Parent: commitOf("a"),
		}},
		{1 << 20, evidence.StageReconcile, observed, evidence.Settled{
			By: "reconciler", Transaction: "tx-1", Effect: evidence.EffectConfirmed, Reason: "branch_holds",
		}},
		{1 << 20, evidence.StageClose, observed, evidence.Closed{
			State: evidence.StateCompleted, Effect: evidence.EffectConfirmed, Stage: evidence.StageClose, Disposition: evidence.OutcomeCompleted,
		}},
	}
}

// A44, A51: evidence whose record was lost says so, in every view, and shows no more than the remote does.
func TestAFoundCommitIsConfirmedAndLabelledAsOneWithoutARecord(t *testing.T) {
	t.Parallel()
	signer := signerFrom(t, 1)
	c, err := record(lostSteps())
	require.NoError(t, err)
	rec := evidence.Record{Run: runID, Facts: c.Facts(), Envelope: sign(t, signer, c.Facts())}
	report := evidence.VerifyOffline(rec, trusting(t, signer))
	require.True(t, report.OK(), "%+v", report)
	require.Contains(t, fmt.Sprint(report.Checks), "labelled record lost")
	for _, name := range []string{evidence.CheckCommit, evidence.CheckPack, evidence.CheckIsolation} {
		require.Equal(t, evidence.ResultNotEvaluated, report.Result(name), name)
	}
	statement, err := evidence.BuildStatement(c.Facts())
	require.NoError(t, err)
	require.True(t, statement.Predicate.RecordLost)
	require.Equal(t, commitOf("c"), statement.Subject[0].Digest["gitCommit"])
	_, err = c.Append(start.Add(time.Hour), 1<<20, evidence.StageReconcile, evidence.SourceObserved, evidence.Found{})
	require.ErrorIs(t, err, evidence.ErrOrder, "the run is closed")

	other := lostSteps()
	found := other[2].body.(evidence.Found)
	found.Profile = "codemod@1.0.0#" + digestOf("5")
	other[2].body = found
	c, err = record(other)
	require.NoError(t, err)
	rec = evidence.Record{Run: runID, Facts: c.Facts(), Envelope: sign(t, signer, c.Facts())}
	require.Equal(t, evidence.ResultFail, evidence.VerifyOffline(rec, trusting(t, signer)).Result(evidence.CheckPins))
}

// A40, A44
func TestAFoundCommitStandsForNoOtherAndNoneStandsForIt(t *testing.T) {
	t.Parallel()
	observed := evidence.SourceObserved
	lost := lostSteps()
	settled := func(transaction string, effect evidence.Effect) step {
		return step{1 << 20, evidence.StageReconcile, observed, evidence.Settled{Transaction: transaction, Effect: effect}}
	}
	for name, steps := range map[string][]step{
		"found beside an intent": append(goodSteps()[:11], step{1, evidence.StageAccept, observed, evidence.Found{}}),
		"found twice":            append(lost[:3:3], lost[2]),
		"found by nobody":        {lost[0], {0, evidence.StageReconcile, observed, evidence.Found{}}},
		"another transaction":    append(lost[:3:3], settled("tx-2", evidence.EffectConfirmed)),
		"confirmed, not found":   append(lost[:2:2], settled("tx-1", evidence.EffectConfirmed)),
		"not dispatched though found": append(lost[:3:3], settled("tx-1", evidence.EffectNotApplied), step{1 << 20, evidence.StageClose, observed, evidence.Closed{
			State: evidence.StateFailed, Effect: evidence.EffectNotDispatched,
		}}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := record(steps)
			require.ErrorIs(t, err, evidence.ErrOrder)
			require.Len(t, c.Facts(), len(steps)-1, "the last step is the one refused")
		})
	}
}
