package evidence_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
)

// A20
func TestChainOfAGoodRunVerifiesAndResumes(t *testing.T) {
	t.Parallel()
	facts := goodFacts(t)
	require.NoError(t, evidence.VerifyChain(runID, facts))
	require.Equal(t, "2026-01-02T03:04:05.678901Z", facts[0].At)

	resumed, err := evidence.Resume(facts[:4])
	require.NoError(t, err)
	s := goodSteps()[4]
	_, err = resumed.Append(start, s.epoch, s.stage, s.source, s.body)
	require.NoError(t, err)
	head, n := resumed.Head()
	require.Equal(t, 5, n)
	require.Equal(t, resumed.Facts()[4].Digest, head)
	require.Equal(t, facts[3].Digest, resumed.Facts()[4].Prev)
}

func TestFactSurvivesItsEncoding(t *testing.T) {
	t.Parallel()
	for _, f := range goodFacts(t) {
		data, err := f.Encode()
		require.NoError(t, err)
		again, err := evidence.DecodeFact(data)
		require.NoError(t, err)
		require.Equal(t, f, again)
		_, err = evidence.DecodeFact(append([]byte(" "), data...))
		require.ErrorIs(t, err, evidence.ErrFactMalformed)
	}
}

// A1, A26
func TestAcceptanceWithoutItsEvidenceIsRefused(t *testing.T) {
	t.Parallel()
	for _, kind := range []evidence.Kind{
		evidence.KindPreflighted, evidence.KindSessionEnded, evidence.KindCaptured, evidence.KindTornDown,
	} {
		steps := without(goodSteps(), kind)
		for _, later := range []evidence.Kind{evidence.KindSessionEnded, evidence.KindCaptured} {
			if kind == evidence.KindSessionEnded {
				steps = without(steps, later)
			}
		}
		_, err := record(steps)
		require.Error(t, err, kind)
		require.Equal(t, evidence.CodeSessionEvidenceGone, evidence.CodeOf(err), kind)
	}
}

// A26
func TestAcceptanceAfterAFailedTeardownIsRefused(t *testing.T) {
	t.Parallel()
	for _, torn := range []evidence.TornDown{
		{VolumesGone: true}, {ContainerGone: true}, {ContainerGone: true, VolumesGone: true, TokensLeft: 1},
	} {
		steps := goodSteps()
		for i := range steps {
			if steps[i].body.Kind() == evidence.KindTornDown {
				steps[i].body = torn
			}
		}
		_, err := record(steps)
		require.Equal(t, evidence.CodeTeardownFailed, evidence.CodeOf(err))
	}
}

// A1, A40, A48, B28
func TestFactsOutOfOrderAreRefused(t *testing.T) {
	t.Parallel()
	good := goodSteps()
	observed := evidence.SourceObserved
	closed := func(state evidence.State, effect evidence.Effect) step {
		return step{1, evidence.StageClose, observed, evidence.Closed{State: state, Effect: effect}}
	}
	cases := map[string][]step{
		"no emission first":           good[1:2],
		"two emissions":               append(good[:1:1], good[0]),
		"resolved without a claim":    {good[0], good[2]},
		"started without admission":   {good[0], good[1], good[2], good[4]},
		"sandbox before the start":    {good[0], good[1], good[2], good[3], good[6]},
		"session without a sandbox":   append(good[:6:6], good[7]),
		"two sandboxes":               append(good[:7:7], good[6]),
		"two intents":                 append(good[:11:11], good[10]),
		"published without intent":    append(good[:10:10], good[11]),
		"a fact after the end":        append(good[:13:13], good[11]),
		"wrong stage":                 {good[0], {1, evidence.StageSession, observed, good[1].body}},
		"wrong source":                {good[0], {1, evidence.StageClaim, evidence.SourceReported, good[1].body}},
		"unknown stage":               {good[0], {1, "other", observed, evidence.Failed{Code: evidence.CodeUnclassified}}},
		"same epoch claimed twice":    {good[0], good[1], good[1]},
		"epoch goes back":             {good[0], {2, evidence.StageClaim, observed, good[1].body}, good[2]},
		"intent after a failure":      append(good[:10:10], step{1, evidence.StageCapture, observed, evidence.Failed{}}, good[10]),
		"intent after a cancel":       append(good[:10:10], step{1, evidence.StageAccept, observed, evidence.Cancelled{}}, good[10]),
		"published other transaction": append(good[:11:11], step{1, evidence.StageAccept, observed, evidence.Published{Transaction: "x"}}),
		"closed in no final state":    append(good[:12:12], closed(evidence.StateRunning, evidence.EffectConfirmed)),
		"closed while unknown":        append(good[:12:12], closed(evidence.StateFailed, evidence.EffectUnknown)),
		"closed while partial":        append(good[:12:12], closed(evidence.StateFailed, evidence.EffectPartial)),
		"confirmed without read-back": append(good[:11:11], closed(evidence.StateCompleted, evidence.EffectConfirmed)),
		"not applied, unsettled":      append(good[:11:11], closed(evidence.StateFailed, evidence.EffectNotApplied)),
		"published, not dispatched":   append(good[:12:12], closed(evidence.StateFailed, evidence.EffectNotDispatched)),
		"closed against the settling": append(good[:12:12],
			step{1, evidence.StageAccept, observed, evidence.Settled{Transaction: "tx-1", Effect: evidence.EffectNotApplied}},
			closed(evidence.StateCompleted, evidence.EffectConfirmed)),
	}
	for name, steps := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := record(steps)
			require.ErrorIs(t, err, evidence.ErrOrder)
			require.Len(t, c.Facts(), len(steps)-1, "the last step is the one refused")
		})
	}
}

// A session that changed nothing: its fence is closed, and the run completes with nothing dispatched. A run that failed before an
// intent may say either.
func TestARunThatSentNothingMayCloseAsNotDispatched(t *testing.T) {
	t.Parallel()
	observed := evidence.SourceObserved
	tombstoned := step{1, evidence.StageAccept, observed, evidence.Settled{By: "worker", Effect: evidence.EffectNotApplied}}
	close := func(c evidence.Closed) step { return step{1, evidence.StageClose, observed, c} }
	noChange := evidence.Closed{
		State: evidence.StateCompleted, Effect: evidence.EffectNotDispatched, Disposition: evidence.OutcomeNoChange,
	}
	_, err := record(append(goodSteps()[:10], tombstoned, close(noChange)))
	require.NoError(t, err)
	_, err = record(append(goodSteps()[:10], tombstoned, close(evidence.Closed{State: evidence.StateFailed, Effect: evidence.EffectNotApplied})))
	require.NoError(t, err)

	_, err = record(append(goodSteps()[:11], step{1, evidence.StageAccept, observed, evidence.Settled{
		Transaction: "tx-1", By: "worker", Effect: evidence.EffectNotApplied,
	}}, close(noChange)))
	require.ErrorIs(t, err, evidence.ErrOrder, "what was intended may have been sent")
}

// A18, A43
func TestValuesOutsideClosedSetsAreRefused(t *testing.T) {
	t.Parallel()
	emitted := goodSteps()[0].body.(evidence.Emitted)
	emitted.Actor = "worker-7"
	_, err := record([]step{{0, evidence.StageEmit, evidence.SourceObserved, emitted}})
	require.ErrorIs(t, err, evidence.ErrFactMalformed)
	emitted.Actor = ""
	_, err = record([]step{{0, evidence.StageEmit, evidence.SourceObserved, emitted}})
	require.ErrorIs(t, err, evidence.ErrFactMalformed)

	_, err = record(append(goodSteps()[:1], step{0, evidence.StageClaim, evidence.SourceObserved, evidence.Failed{Code: "made_up"}}))
	require.ErrorIs(t, err, evidence.ErrFactMalformed)
	var chainErr *evidence.ChainError
	require.True(t, errors.As(err, &chainErr))
	require.Equal(t, 2, chainErr.Seq)
	require.Equal(t, evidence.KindFailed, chainErr.Kind)

	_, err = record([]step{{0, evidence.StageEmit, evidence.SourceObserved, nil}}[:1])
	require.ErrorIs(t, err, evidence.ErrFactMalformed)
}

func TestAChainMayBeUsedFromSeveralGoroutines(t *testing.T) {
	t.Parallel()
	c, err := record(goodSteps()[:5])
	require.NoError(t, err)
	done := make(chan error, 20)
	for i := range 20 {
		go func() {
			_, err := c.Append(start, 1, evidence.StageSession, evidence.SourceObserved, evidence.Failed{Subject: fmt.Sprint(i)})
			done <- err
		}()
	}
	for range 20 {
		require.NoError(t, <-done)
	}
	require.NoError(t, evidence.VerifyChain(runID, c.Facts()))
}
