package queue_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/queue"
)

func tick(t *testing.T, s *queue.Store) queue.Ticked {
	t.Helper()
	done, err := s.Tick(t.Context())
	require.NoError(t, err)
	return done
}

// CASES 1, 2
func TestTickDispatchesWhatHasNoLiveJob(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	claimable := emit(t, s, request("claimable"))
	expired := emit(t, s, request("expired"))
	left := emit(t, s, request("left"))
	lease := claim(t, s, left)
	start(t, t.Context(), lease)
	claim(t, s, expired)
	require.Equal(t, queue.Ticked{}, tick(t, s), "everything has a live job or a lease")

	sql(t, s, `DELETE FROM river_job`)
	require.Equal(t, queue.Ticked{Runs: 1}, tick(t, s))
	require.Equal(t, queue.Ticked{}, tick(t, s), "once")

	expire(t, s)
	require.Equal(t, queue.Ticked{Runs: 1, Reconciles: 1}, tick(t, s))
	require.Equal(t, 1, scalar[int](t, s, `SELECT count(*)::int FROM river_job
		WHERE kind = 'harness_reconcile' AND args->>'run' = $1 AND (args->>'epoch')::int = 2 AND max_attempts = 1`, left.ID))

	// The worker that had the jobs dies: River goes on showing them as running.
	sql(t, s, `UPDATE river_job SET state = 'running', attempted_at = now() - interval '1 hour', attempted_by = '{dead/n0}' WHERE state = 'available'`)
	require.Equal(t, queue.Ticked{Runs: 2, Reconciles: 1, Discarded: 3}, tick(t, s))
	require.Zero(t, scalar[int](t, s, `SELECT count(*)::int FROM river_job WHERE state = 'running'`))

	// A reconciler's own lease that expired is found like any other.
	_, err := s.TakeOver(t.Context(), left.ID, claimant("w2"), false)
	require.NoError(t, err)
	sql(t, s, `UPDATE river_job SET state = 'running', attempted_at = now() - interval '1 hour', attempted_by = '{dead/n0}' WHERE state = 'available'`)
	expire(t, s)
	require.Equal(t, queue.Ticked{Runs: 2, Reconciles: 1, Discarded: 3}, tick(t, s))

	require.NoError(t, s.Pause(t.Context(), "ada", ""))
	sql(t, s, `DELETE FROM river_job`)
	require.Equal(t, queue.Ticked{Reconciles: 1}, tick(t, s), "settling goes on while paused")
	require.NoError(t, s.Resume(t.Context()))
	require.Equal(t, queue.Ticked{Runs: 2}, tick(t, s))
	_ = claimable
}

// CASES 2, 4: a job that ended well has said nothing about its run, whether it was to claim it or to settle it.
func TestACompletedJobDoesNotMeanThatItsRunIsOver(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	emit(t, s, request("unclaimed"))
	lease := claim(t, s, emit(t, s, request("unsettled")))
	start(t, t.Context(), lease)
	expire(t, s)
	for _, want := range []queue.Ticked{{Reconciles: 1}, {Runs: 1, Reconciles: 1}, {Runs: 1, Reconciles: 1}} {
		require.Equal(t, want, tick(t, s), "only the run's own row says that a run is over")
		sql(t, s, `UPDATE river_job SET state = 'completed', finalized_at = now() WHERE finalized_at IS NULL`)
	}
}

func TestTickLeavesRunsWhoseRefIsLockedAndFindsThoseThatAreLate(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	first := emit(t, s, request("ref"))
	r := request("ref")
	r.TriggerKey, r.DeadlineSeconds = "ref-2", 1
	emit(t, s, r)
	lease := claim(t, s, first)
	sql(t, s, `DELETE FROM river_job`)
	require.Equal(t, queue.Ticked{}, tick(t, s))
	time.Sleep(1100 * time.Millisecond)
	require.Equal(t, queue.Ticked{Reconciles: 1}, tick(t, s), "its deadline has passed")
	require.NoError(t, lease.Check(t.Context()))
}

// A51
func TestReplacedDatabaseStopsAllClaimsUntilItIsAdopted(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	fresh := emit(t, s, request("fresh"))
	working := emit(t, s, request("working"))
	lease := claim(t, s, working)
	start(t, t.Context(), lease)
	done := emit(t, s, request("done"))
	complete(t, t.Context(), claim(t, s, done))
	for _, change := range []string{
		`system_identifier = '1'`,
		`system_identifier = (SELECT system_identifier::text FROM pg_control_system()), timeline = timeline + 1`,
		`timeline = timeline - 1, relation = 'ops_run'::regclass`,
	} {
		sql(t, s, `UPDATE control SET `+change)
		control, err := s.Control(t.Context())
		require.NoError(t, err)
		require.True(t, control.Replaced())
		_, err = s.Claim(t.Context(), fresh.ID, claimant("w1"))
		require.ErrorIs(t, err, queue.ErrDatabaseReplaced)
		require.ErrorIs(t, lease.SaveIntent(t.Context(), intentOf(working)), queue.ErrDatabaseReplaced)
	}
	runs, err := s.Adopt(t.Context(), "ada")
	require.NoError(t, err)
	require.Len(t, runs, 2)
	for _, run := range runs {
		require.Greater(t, run.Epoch, int64(1<<19))
		_, err = s.Claim(t.Context(), run.ID, claimant("w1"))
		require.ErrorIs(t, err, queue.ErrNotClaimable, "it may have been started in what was lost")
		taken, err := s.TakeOver(t.Context(), run.ID, claimant("w1"), false)
		require.NoError(t, err)
		require.NoError(t, taken.Close(t.Context(), failed(evidence.EffectNotApplied, evidence.CodeWorkerLost)))
	}
	require.ErrorIs(t, lease.Check(t.Context()), queue.ErrLeaseLost)
	control, err := s.Control(t.Context())
	require.NoError(t, err)
	require.False(t, control.Replaced())
	unknown, err := s.UnknownRuns(t.Context(), []string{done.ID, "lost-run-1"})
	require.NoError(t, err)
	require.Equal(t, []string{"lost-run-1"}, unknown)
	claim(t, s, emit(t, s, request("after")))
}

func TestSchemaMustBeTheBinarysOwn(t *testing.T) {
	t.Parallel()
	url := database(t)
	s := open(t, url)
	sql(t, s, `INSERT INTO harness_schema (version_id, is_applied) VALUES (9999, true)`)
	_, err := queue.Open(t.Context(), queue.Config{URL: url})
	require.ErrorIs(t, err, queue.ErrSchemaNewer)
	require.NoError(t, func() error { _, err := s.Runs(context.Background(), queue.Filter{}); return err }(),
		"a worker that runs already goes on")
	sql(t, s, `DELETE FROM harness_schema WHERE version_id IN (1, 9999)`)
	_, err = queue.Open(t.Context(), queue.Config{URL: url})
	require.ErrorIs(t, err, queue.ErrSchemaOlder)
}

func TestMigrationsMayRunAgainAndAtOnce(t *testing.T) {
	t.Parallel()
	url := database(t)
	results := make(chan error, 3)
	for range 3 {
		go func() { results <- queue.Migrate(t.Context(), url) }()
	}
	for range 3 {
		require.NoError(t, <-results)
	}
}

// A27
func TestDatabaseURLIsNotShown(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"postgres://u:canary-password@127.0.0.1:bad/x", "postgres://u:canary-password@127.0.0.1:1/x"} {
		_, err := queue.Open(t.Context(), queue.Config{URL: url})
		require.Error(t, err)
		require.NotContains(t, err.Error(), "canary-password")
		err = queue.Migrate(t.Context(), url)
		require.Error(t, err)
		require.NotContains(t, err.Error(), "canary-password")
	}
}

func TestRunsAreListedByFilterAndPage(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	var ids []string
	for _, key := range []string{"a", "b", "c"} {
		ids = append([]string{emit(t, s, request("list-"+key)).ID}, ids...)
	}
	list := func(f queue.Filter) []string {
		runs, err := s.Runs(t.Context(), f)
		require.NoError(t, err)
		var got []string
		for _, r := range runs {
			got = append(got, r.ID)
		}
		return got
	}
	require.Equal(t, ids, list(queue.Filter{}))
	require.Equal(t, ids[:2], list(queue.Filter{Limit: 2}))
	require.Equal(t, ids[2:], list(queue.Filter{Before: ids[1]}))
	require.Equal(t, ids, list(queue.Filter{Definition: "nightly", States: []evidence.State{evidence.StateCreated}}))
	require.Empty(t, list(queue.Filter{Repository: "git.example/none"}))
	require.Empty(t, list(queue.Filter{Stuck: true}))
}
