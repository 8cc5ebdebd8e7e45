package queue_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/queue"
	"github.com/rein-aharness/harness/queue/schedule"
)

// scheduled is a definition with a schedule, on a repository of its own.
func scheduled(name string, spec schedule.Spec) queue.Definition {
	r := request(name)
	return queue.Definition{
		Version: 1, Name: name, Repository: r.Repository, BaseRef: r.BaseRef, TargetRef: r.TargetRef, Task: r.Task,
		Profile: r.Profile, Grant: r.Grant, Schedule: &spec,
	}
}

const day = 24 * time.Hour

func daily(missed schedule.Missed) schedule.Spec { return schedule.Spec{Every: "24h", Missed: missed} }

func apply(t *testing.T, s *queue.Store, definitions ...queue.Definition) {
	t.Helper()
	_, err := s.Apply(t.Context(), "ada", definitions...)
	require.NoError(t, err)
}

// age makes it so that nobody has looked at a definition since some time ago.
func age(t *testing.T, s *queue.Store, name string, ago time.Duration) {
	t.Helper()
	sql(t, s, `ALTER TABLE definition DISABLE TRIGGER definition_guard`)
	sql(t, s, `UPDATE definition SET decided_to = clock_timestamp() - $2 * interval '1 second', next_due = clock_timestamp() WHERE name = $1`,
		name, ago.Seconds())
	sql(t, s, `ALTER TABLE definition ENABLE TRIGGER definition_guard`)
}

func look(t *testing.T, s *queue.Store) {
	t.Helper()
	require.NoError(t, s.Look(t.Context()))
}

// emitting makes runs of ticks in the store itself.
func emitting(s *queue.Store) func(context.Context, queue.Scheduled) (queue.Run, error) {
	return func(ctx context.Context, t queue.Scheduled) (queue.Run, error) {
		r, err := t.Request()
		if err != nil {
			return queue.Run{}, err
		}
		run, _, err := s.Emit(ctx, r, queue.Emission{Pin: pins(r)})
		return run, err
	}
}

// emitAll emits every tick that is due and gives how many there were.
func emitAll(t *testing.T, s *queue.Store) int {
	t.Helper()
	for n := 0; ; n++ {
		more, err := s.EmitScheduled(t.Context(), emitting(s))
		require.NoError(t, err)
		if !more {
			return n
		}
	}
}

func ticks(t *testing.T, s *queue.Store, name string) []queue.PastTick {
	t.Helper()
	list, err := s.Ticks(t.Context(), name, 1000)
	require.NoError(t, err)
	return list
}

func runOf(t *testing.T, s *queue.Store, tick queue.PastTick) queue.Run {
	t.Helper()
	run, err := s.Run(t.Context(), tick.Run)
	require.NoError(t, err)
	return run
}

// A9
func TestDefinitionThatCouldNotBeEmittedIsNotApplied(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for name, c := range map[string]struct {
		change func(*queue.Definition)
		code   evidence.Code
		text   string
	}{
		"a profile's latest": {func(d *queue.Definition) { d.Profile = "codemod@latest" }, evidence.CodeProfileMalformed, ""},
		"a credential in the URL": {
			func(d *queue.Definition) { d.Repository = "https://u:p@git.example/r" }, evidence.CodeValueInContract, "",
		},
		"a ref of the harness": {func(d *queue.Definition) { d.TargetRef = "refs/harness/x" }, evidence.CodeRefNotGranted, ""},
		"a day there is none":  {func(d *queue.Definition) { d.Schedule.Cron, d.Schedule.Every = "0 0 30 2 *", "" }, evidence.CodeContractInvalid, "no such day"},
		"a short interval":     {func(d *queue.Definition) { d.Schedule.Every = "59s" }, evidence.CodeContractInvalid, "1m0s at least"},
		"one attempt":          {func(d *queue.Definition) { d.Attempts = &queue.Attempts{Max: 1} }, evidence.CodeContractInvalid, "2 to 10"},
		"attempts for ever":    {func(d *queue.Definition) { d.Attempts = &queue.Attempts{Max: 11} }, evidence.CodeContractInvalid, "2 to 10"},
		"a backoff of days": {
			func(d *queue.Definition) { d.Attempts = &queue.Attempts{Max: 2, Backoff: "25h"} }, evidence.CodeContractInvalid, "24h",
		},
		"attempts after success": {func(d *queue.Definition) {
			d.Attempts = &queue.Attempts{Max: 2, After: []evidence.Outcome{evidence.OutcomeCompleted}}
		}, evidence.CodeContractInvalid, "none of"},
		"attempts after unknown": {func(d *queue.Definition) {
			d.Attempts = &queue.Attempts{Max: 2, After: []evidence.Outcome{evidence.OutcomeWaitExternal}}
		}, evidence.CodeContractInvalid, "none of"},
		"attempts without a schedule": {func(d *queue.Definition) {
			d.Schedule, d.Attempts = nil, &queue.Attempts{Max: 2}
		}, evidence.CodeContractInvalid, "belong to a schedule"},
		"less than nobody": {func(d *queue.Definition) { d.Concurrency = -1 }, evidence.CodeContractInvalid, "concurrency"},
	} {
		d := scheduled("refused", daily(""))
		c.change(&d)
		_, err := s.Apply(t.Context(), "ada", scheduled("good", daily("")), d)
		require.Equal(t, c.code, evidence.CodeOf(err), "%s: %v", name, err)
		require.ErrorContains(t, err, c.text, name)
	}
	list, err := s.Definitions(t.Context())
	require.NoError(t, err)
	require.Empty(t, list, "all or none")
	_, err = s.Definition(t.Context(), "refused")
	require.ErrorIs(t, err, queue.ErrNoDefinition)
	require.ErrorIs(t, s.PauseDefinition(t.Context(), "refused", "ada", ""), queue.ErrNoDefinition)
}

func TestEachDocumentThatDiffersIsARevision(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	d := scheduled("revised", daily(""))
	changed, err := s.Apply(t.Context(), "ada", d)
	require.NoError(t, err)
	require.Equal(t, []string{"revised"}, changed)
	changed, err = s.Apply(t.Context(), "grace", d)
	require.NoError(t, err)
	require.Empty(t, changed)
	first, err := s.Definition(t.Context(), "revised")
	require.NoError(t, err)

	d.Task = "another task"
	apply(t, s, d)
	second, err := s.Definition(t.Context(), "revised")
	require.NoError(t, err)
	require.Equal(t, 2, second.Revision)
	require.Equal(t, first.DecidedTo, second.DecidedTo, "the schedule is the same")
	require.Equal(t, first.NextDue, second.NextDue)

	d.Schedule = nil
	apply(t, s, d)
	third, err := s.Definition(t.Context(), "revised")
	require.NoError(t, err)
	require.Nil(t, third.NextDue)
	read, err := third.Definition()
	require.NoError(t, err)
	require.Equal(t, "another task", read.Task)
	require.Nil(t, read.Schedule)

	revisions, err := s.Revisions(t.Context(), "revised")
	require.NoError(t, err)
	require.Len(t, revisions, 3)
	require.Equal(t, first.Digest, revisions[2].Digest)
	require.Equal(t, "ada", revisions[2].AppliedBy)
	_, err = s.Pool().Exec(t.Context(), `UPDATE definition_revision SET digest = ''`)
	require.ErrorContains(t, err, "append-only")
}

func TestManyWhoApplyAtOnceGiveOneRevision(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	var changes atomic.Int32
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			changed, err := s.Apply(t.Context(), "ada", scheduled("race", daily("")))
			if err != nil {
				t.Error(err)
			}
			changes.Add(int32(len(changed)))
		})
	}
	all.Wait()
	require.EqualValues(t, 1, changes.Load())
}

// A15
func TestManyWhoLookAtOnceRecordEachDueTimeOnce(t *testing.T) {
	t.Parallel()
	url := database(t)
	stores := []*queue.Store{open(t, url), open(t, url), open(t, url)}
	apply(t, stores[0], scheduled("due", daily(schedule.MissedAll)))
	age(t, stores[0], "due", 6*day)
	var all sync.WaitGroup
	for i := range 30 {
		all.Go(func() {
			s := stores[i%3]
			if err := s.Look(t.Context()); err != nil {
				t.Error(err)
			}
			for {
				if more, err := s.EmitScheduled(t.Context(), emitting(s)); err != nil || !more {
					if err != nil {
						t.Error(err)
					}
					return
				}
			}
		})
	}
	all.Wait()
	list := ticks(t, stores[0], "due")
	require.Len(t, list, 6)
	for i, tick := range list {
		require.Equal(t, queue.TickEmitted, tick.State)
		require.Equal(t, "schedule/due/"+tick.Due.UTC().Format(time.RFC3339), runOf(t, stores[0], tick).TriggerKey)
		if i > 0 {
			require.Equal(t, day, list[i-1].Due.Sub(tick.Due))
		}
	}
	require.Equal(t, 6, scalar[int](t, stores[0], `SELECT count(*)::int FROM ops_run`))
}

func TestMissedTicksFollowThePolicyOfTheirDefinition(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	latest, all := scheduled("latest", daily("")), scheduled("all", schedule.Spec{Every: "24h", Missed: "all", MissedBound: 3})
	// A minute's schedule whose last due time is never old, and a day's whose last one always is.
	fresh := scheduled("fresh", schedule.Spec{Every: "1m", Missed: "skip"})
	stale := scheduled("stale", schedule.Spec{Every: "24h", Missed: "skip", Grace: "1ms"})
	apply(t, s, latest, all, fresh, stale)
	for _, name := range []string{"latest", "all", "fresh", "stale"} {
		age(t, s, name, 50*day)
	}
	look(t, s)
	missed := func(name string) (out []int) {
		for _, tick := range ticks(t, s, name) {
			out = append(out, tick.Missed)
		}
		return out
	}
	require.Equal(t, []int{49}, missed("latest"))
	require.Equal(t, []int{0, 0, 47}, missed("all"), "the oldest one that counts says how many before it did not")
	require.InDelta(t, 50*24*60-1, missed("fresh")[0], 1, "a minute may have begun meanwhile")
	require.Empty(t, missed("stale"))
	list, err := s.Definitions(t.Context())
	require.NoError(t, err)
	for _, d := range list {
		require.True(t, d.NextDue.After(d.DecidedTo), d.Name)
	}
}

func TestNothingIsEmittedWhilePausedAndThenThePolicyDecides(t *testing.T) {
	t.Parallel()
	for name, switches := range map[string]struct{ pause, resume func(*queue.Store) error }{
		"the definition": {
			func(s *queue.Store) error { return s.PauseDefinition(t.Context(), "p", "ada", "a freeze") },
			func(s *queue.Store) error { return s.ResumeDefinition(t.Context(), "p") },
		},
		"the harness": {
			func(s *queue.Store) error { return s.Pause(t.Context(), "ada", "a freeze") },
			func(s *queue.Store) error { return s.Resume(t.Context()) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStore(t)
			apply(t, s, scheduled("p", daily("")))
			age(t, s, "p", day)
			look(t, s)
			require.NoError(t, switches.pause(s))
			require.Zero(t, emitAll(t, s), "not even what was recorded before")
			require.NoError(t, switches.resume(s))
			require.Equal(t, 1, emitAll(t, s))

			require.NoError(t, switches.pause(s))
			age(t, s, "p", 5*day)
			look(t, s)
			require.Len(t, ticks(t, s, "p"), 1)
			require.NoError(t, switches.resume(s))
			sql(t, s, `DELETE FROM definition_tick`) // the same day is due again, only because the test turned time back
			look(t, s)
			require.Len(t, ticks(t, s, "p"), 1)
			require.Equal(t, 4, ticks(t, s, "p")[0].Missed)
		})
	}
}

func TestUnreachableRemotePilesUpNoTicks(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	apply(t, s, scheduled("away", daily("")))
	age(t, s, "away", day)
	look(t, s)
	for _, code := range []evidence.Code{evidence.CodeRemoteUnreachable, evidence.CodeCredentialFailed, evidence.CodeRemoteDenied} {
		more, err := s.EmitScheduled(t.Context(), func(context.Context, queue.Scheduled) (queue.Run, error) {
			return queue.Run{}, evidence.Fail(evidence.StageEmit, code, "", nil)
		})
		require.True(t, more)
		require.ErrorContains(t, err, "schedule/away/")
		require.Zero(t, emitAll(t, s), "it is not tried again at once")
		waiting := ticks(t, s, "away")
		require.Len(t, waiting, 1)
		require.Equal(t, queue.TickPending, waiting[0].State)
		require.Equal(t, code, waiting[0].Code)
		sql(t, s, `UPDATE definition_tick SET next_try_at = clock_timestamp()`)
	}
	sql(t, s, `UPDATE definition SET next_due = clock_timestamp()`)
	look(t, s)
	require.Len(t, ticks(t, s, "away"), 1, "nothing is looked at while something waits")
	require.Equal(t, 1, emitAll(t, s))
	emitted := ticks(t, s, "away")[0]
	require.Equal(t, queue.TickEmitted, emitted.State)
	require.Equal(t, 4, emitted.Tries)
	require.Empty(t, emitted.Code)
}

func TestRefusedTickIsOnRecordAndTheScheduleGoesOn(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	apply(t, s, scheduled("bad", daily("")))
	for i, code := range []evidence.Code{evidence.CodeProfileUnknown, evidence.CodeBaselineUnresolved, evidence.CodeTriggerConflict} {
		age(t, s, "bad", time.Duration(i+1)*day)
		sql(t, s, `UPDATE definition_tick SET due_at = due_at - interval '1 year'`)
		sql(t, s, `UPDATE definition_tick SET trigger_key = 'past-' || due_at`)
		look(t, s)
		more, err := s.EmitScheduled(t.Context(), func(context.Context, queue.Scheduled) (queue.Run, error) {
			return queue.Run{}, evidence.Fail(evidence.StageEmit, code, "", nil)
		})
		require.NoError(t, err)
		require.True(t, more)
		last := ticks(t, s, "bad")[0]
		require.Equal(t, queue.TickRefused, last.State)
		require.Equal(t, code, last.Code)
	}
	require.Len(t, ticks(t, s, "bad"), 3)
}

// A15
func TestEmissionWhoseAnswerWasLostGivesTheSameRun(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	apply(t, s, scheduled("lost", daily("")))
	age(t, s, "lost", day)
	look(t, s)
	var made queue.Run
	_, err := s.EmitScheduled(t.Context(), func(ctx context.Context, tick queue.Scheduled) (run queue.Run, err error) {
		made, err = emitting(s)(ctx, tick)
		require.NoError(t, err)
		return queue.Run{}, errors.New("the connection broke")
	})
	require.ErrorContains(t, err, "the connection broke")
	sql(t, s, `UPDATE definition_tick SET next_try_at = clock_timestamp()`)
	require.Equal(t, 1, emitAll(t, s))
	require.Equal(t, made.ID, ticks(t, s, "lost")[0].Run)
	require.Equal(t, 1, scalar[int](t, s, `SELECT count(*)::int FROM ops_run`))
}

func TestTickOfAWorkerThatDiedIsEmittedByAnother(t *testing.T) {
	t.Parallel()
	s := newStore(t, short)
	apply(t, s, scheduled("dead", daily("")))
	age(t, s, "dead", day)
	look(t, s)
	ctx, die := context.WithCancel(t.Context())
	_, err := s.EmitScheduled(ctx, func(context.Context, queue.Scheduled) (queue.Run, error) {
		die() // and nothing is noted any more
		return queue.Run{}, ctx.Err()
	})
	require.Error(t, err)
	require.Zero(t, emitAll(t, s))
	require.Eventually(t, func() bool { return emitAll(t, s) == 1 }, time.Minute, 100*time.Millisecond)
}

func TestChangedScheduleCountsFromItsApplication(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	d := scheduled("moved", daily(""))
	apply(t, s, d)
	age(t, s, "moved", 3*day)
	d.Schedule = &schedule.Spec{Every: "1m", Missed: "all"}
	apply(t, s, d)
	list := ticks(t, s, "moved")
	require.Len(t, list, 1, "what the schedule before had due")
	require.Equal(t, 1, list[0].Revision)
	require.Equal(t, 1, emitAll(t, s))
	now, err := s.Definition(t.Context(), "moved")
	require.NoError(t, err)
	require.LessOrEqual(t, now.NextDue.Sub(now.DecidedTo), time.Minute)
	look(t, s)
	for _, tick := range ticks(t, s, "moved") {
		require.True(t, tick.Revision == 1 || tick.Due.After(now.DecidedTo))
	}
}

func TestWhatIsDecidedNeverFalls(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	apply(t, s, scheduled("back", daily("")))
	_, err := s.Pool().Exec(t.Context(), `UPDATE definition SET decided_to = decided_to - interval '1 second'`)
	require.ErrorContains(t, err, "stays decided")
	// The clock was ahead and was set back: what it had decided meanwhile is not due again.
	sql(t, s, `UPDATE definition SET decided_to = decided_to + interval '3 hours', next_due = clock_timestamp()`)
	look(t, s)
	require.Empty(t, ticks(t, s, "back"))
	d, err := s.Definition(t.Context(), "back")
	require.NoError(t, err)
	require.True(t, d.NextDue.After(d.DecidedTo))
}

// A51
func TestAdoptedDatabaseEmitsNothingThatItMayHaveEmitted(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	apply(t, s, scheduled("restored", daily(schedule.MissedAll)), scheduled("waiting", daily("")))
	age(t, s, "waiting", day)
	look(t, s)
	age(t, s, "restored", 5*day)
	sql(t, s, `UPDATE control SET timeline = timeline + 1`)
	look(t, s)
	require.Zero(t, emitAll(t, s))
	_, err := s.Adopt(t.Context(), "ada")
	require.NoError(t, err)
	look(t, s)
	require.Zero(t, emitAll(t, s))
	require.Empty(t, ticks(t, s, "restored"))
	require.Equal(t, queue.TickDropped, ticks(t, s, "waiting")[0].State)
	d, err := s.Definition(t.Context(), "restored")
	require.NoError(t, err)
	require.True(t, d.NextDue.After(d.DecidedTo))
}

func TestOneDefinitionThatCannotBeReadHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	apply(t, s, scheduled("a-broken", daily("")), scheduled("b-good", daily("")))
	age(t, s, "a-broken", 2*day)
	age(t, s, "b-good", day)
	sql(t, s, `INSERT INTO definition_revision VALUES ('a-broken', 2, '{"later":1}', '', 'ada')`)
	sql(t, s, `UPDATE definition SET revision = 2 WHERE name = 'a-broken'`)
	require.ErrorContains(t, s.Look(t.Context()), "a-broken")
	require.Len(t, ticks(t, s, "b-good"), 1)
	require.Equal(t, 1, emitAll(t, s))
}
