package queue_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/queue"
)

// A46, A47, B30
func TestFurtherAttemptsFollowThePolicyAlone(t *testing.T) {
	t.Parallel()
	three := &queue.Attempts{Max: 3, Backoff: "0s"}
	refused := &queue.Attempts{Max: 2, Backoff: "0s", After: []evidence.Outcome{evidence.OutcomeRefused}}
	for name, c := range map[string]struct {
		policy  *queue.Attempts
		end     queue.Closing
		follows bool
	}{
		"no policy":                    {nil, failed(evidence.EffectNotDispatched, evidence.CodeSessionFailed), false},
		"failed":                       {three, failed(evidence.EffectNotDispatched, evidence.CodeSessionFailed), true},
		"not applied":                  {three, endedBy(evidence.EffectNotApplied, evidence.CodeBaselineMoved, evidence.OutcomeNotApplied), true},
		"refused":                      {three, endedBy(evidence.EffectNotDispatched, evidence.CodeProfileBlocked, evidence.OutcomeRefused), false},
		"refused, as the policy says":  {refused, endedBy(evidence.EffectNotDispatched, evidence.CodeProfileBlocked, evidence.OutcomeRefused), true},
		"failed, and the policy is of": {refused, failed(evidence.EffectNotDispatched, evidence.CodeSessionFailed), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStore(t)
			d := scheduled("again", daily(""))
			d.Attempts = c.policy
			apply(t, s, d)
			age(t, s, "again", day)
			look(t, s)
			require.Equal(t, 1, emitAll(t, s))
			first := runOf(t, s, ticks(t, s, "again")[0])
			lease := claim(t, s, first)
			start(t, t.Context(), lease)
			look(t, s)
			require.Zero(t, emitAll(t, s), "the run is not over")
			require.NoError(t, lease.Close(t.Context(), c.end))
			look(t, s)
			look(t, s)
			if !c.follows {
				require.Zero(t, emitAll(t, s))
				require.Equal(t, queue.TickEnded, ticks(t, s, "again")[0].State)
				return
			}
			require.Equal(t, 1, emitAll(t, s), "once")
			second := runOf(t, s, ticks(t, s, "again")[0])
			require.Equal(t, first.ID, second.Supersedes)
			require.Equal(t, first.TriggerKey, second.OperationKey)
			require.Equal(t, first.TriggerKey+"#2", second.TriggerKey)
			require.False(t, second.Attended)
		})
	}
}

func endedBy(effect evidence.Effect, code evidence.Code, disposition evidence.Outcome) queue.Closing {
	end := failed(effect, code)
	end.Disposition = disposition
	return end
}

// A47
func TestAttemptsEndAtTheirBoundAndAtAnOperatorsWord(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	bounded, cancelled, done, retried := scheduled("bounded", daily("")), scheduled("cancelled", daily("")),
		scheduled("done", daily("")), scheduled("retried", daily(""))
	for _, d := range []*queue.Definition{&bounded, &cancelled, &done, &retried} {
		d.Attempts = &queue.Attempts{Max: 3, Backoff: "0s"}
		apply(t, s, *d)
		age(t, s, d.Name, day)
	}
	look(t, s)
	require.Equal(t, 4, emitAll(t, s))
	run := func(name string) queue.Run { return runOf(t, s, ticks(t, s, name)[0]) }
	fail := func(name string) queue.Run {
		lease := claim(t, s, run(name))
		start(t, t.Context(), lease)
		require.NoError(t, lease.Close(t.Context(), failed(evidence.EffectNotDispatched, evidence.CodeSessionFailed)))
		return lease.Run()
	}
	complete(t, t.Context(), claim(t, s, run("done")))
	require.NoError(t, s.Cancel(t.Context(), run("cancelled").ID, "ada", "no more"))
	taken, err := s.TakeOver(t.Context(), run("cancelled").ID, claimant("w1"), false)
	require.NoError(t, err)
	end := endedBy(evidence.EffectNotDispatched, evidence.CodeCancelled, evidence.OutcomeCancelled)
	end.State = evidence.StateCancelled
	require.NoError(t, taken.Close(t.Context(), end))
	by, err := fail("retried").Successor()
	require.NoError(t, err)
	emit(t, s, by)
	for attempt := range 3 {
		fail("bounded")
		look(t, s)
		require.Equal(t, min(2-attempt, 1), emitAll(t, s), "after attempt %d", attempt+1)
	}
	require.Len(t, ticks(t, s, "bounded"), 3)
	for _, name := range []string{"cancelled", "done", "retried"} {
		require.Len(t, ticks(t, s, name), 1, name)
		require.Equal(t, queue.TickEnded, ticks(t, s, name)[0].State, name)
	}
}

func TestAttemptsWaitEverLonger(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	d := scheduled("slow", daily(""))
	d.Attempts = &queue.Attempts{Max: 4, Backoff: "10m"}
	apply(t, s, d)
	age(t, s, "slow", day)
	for _, wait := range []time.Duration{10 * time.Minute, 20 * time.Minute, 40 * time.Minute} {
		look(t, s)
		sql(t, s, `UPDATE definition_tick SET next_try_at = clock_timestamp()`)
		require.Equal(t, 1, emitAll(t, s))
		lease := claim(t, s, runOf(t, s, ticks(t, s, "slow")[0]))
		start(t, t.Context(), lease)
		require.NoError(t, lease.Close(t.Context(), failed(evidence.EffectNotDispatched, evidence.CodeSessionFailed)))
		look(t, s)
		require.Zero(t, emitAll(t, s))
		next, last := ticks(t, s, "slow")[0], ticks(t, s, "slow")[1]
		require.Equal(t, queue.TickPending, next.State)
		require.Equal(t, wait, next.NextTryAt.Sub(*runOf(t, s, last).FinishedAt))
	}
}
