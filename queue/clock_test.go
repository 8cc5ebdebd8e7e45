package queue_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/queue"
)

// skew makes the database's clock differ from everybody else's: its new sessions find a clock_timestamp before the real one.
func skew(t *testing.T, s *queue.Store, by string) {
	t.Helper()
	sql(t, s, `CREATE OR REPLACE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS
		$$ SELECT pg_catalog.clock_timestamp() + interval '`+by+`' $$`)
	sql(t, s, `ALTER DATABASE `+scalar[string](t, s, `SELECT current_database()`)+` SET search_path = public, pg_catalog`)
	s.Pool().Reset()
}

// A16, CASES 12: whether a lease is over is said by the database's clock. A worker's own may be an hour off: nobody takes a live
// lease for a dead one, or a dead one for live.
func TestLeaseEndsByTheDatabasesClockWhateverTheWorkersSays(t *testing.T) {
	t.Parallel()
	for name, by := range map[string]string{"ahead": "1 hour", "behind": "-1 hour"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := database(t)
			skew(t, open(t, url), by)
			s := open(t, url, func(c *queue.Config) {
				c.TTL, c.Beat, c.Margin = 3*time.Second, 300*time.Millisecond, 500*time.Millisecond
			})
			require.Greater(t, time.Since(scalar[time.Time](t, s, `SELECT clock_timestamp()`)).Abs(), 50*time.Minute)
			live, dead := emit(t, s, request("live")), emit(t, s, request("dead"))
			kept, stop := claim(t, s, live).Keep(t.Context())
			defer stop()
			lost := claim(t, s, dead)
			sql(t, s, `DELETE FROM river_job`)
			require.Equal(t, queue.Ticked{}, tick(t, s), "both leases hold")

			time.Sleep(3500 * time.Millisecond)
			require.Equal(t, queue.Ticked{Runs: 1}, tick(t, s), "one of them is over")
			require.ErrorIs(t, lost.Check(t.Context()), queue.ErrLeaseLost)
			_, err := s.Claim(t.Context(), live.ID, claimant("w2"))
			require.ErrorIs(t, err, queue.ErrNotClaimable)
			_, err = s.Claim(t.Context(), dead.ID, claimant("w2"))
			require.NoError(t, err)
			require.NoError(t, kept.Err())
		})
	}
}

// CASES 12: what a process records and judges by the time of day goes by the database's clock, also when that is set while it runs.
func TestTimeOfDayIsTheDatabases(t *testing.T) {
	t.Parallel()
	url := database(t)
	skew(t, open(t, url), "2 hours")
	s := open(t, url, func(c *queue.Config) { c.Beat = 100 * time.Millisecond })
	require.WithinDuration(t, scalar[time.Time](t, s, `SELECT clock_timestamp()`), s.Now(), time.Second)
	require.Greater(t, time.Until(s.Now()), time.Hour)
	run := emit(t, s, request("one"))
	facts, err := s.Facts(t.Context(), run.ID)
	require.NoError(t, err)
	at, err := evidence.ParseTime(facts[0].At)
	require.NoError(t, err)
	require.WithinDuration(t, s.Now(), at, time.Minute)

	skew(t, s, "-2 hours")
	tick(t, s)
	require.Less(t, time.Until(s.Now()), -time.Hour, "a tick finds it set back")
	kept, stop := claim(t, s, run).Keep(t.Context())
	defer stop()
	skew(t, s, "-3 hours")
	require.Eventually(t, func() bool { return time.Until(s.Now()) < -150*time.Minute }, 10*time.Second, 10*time.Millisecond, "so does a heartbeat")
	require.NoError(t, kept.Err())
}
