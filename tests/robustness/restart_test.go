package robustness_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/tests/stack"
)

// A25, A36, CASES 3, 10: under load every worker is drained and started again, one after the other, and no run fails by it; then
// Postgres is ended at once and started again, and then the engine, and no run is lost or done twice.
func TestRestartsLoseNothingAndARollingOneFailsNoRun(t *testing.T) {
	s := begin(t, stack.Load(t).Private(t, stack.PartPostgres, stack.PartDocker))
	s.run(func(ctx context.Context) {
		require.True(t, pause(ctx, settled))
		for _, w := range s.workers {
			require.NoError(t, w.drain(ctx))
			require.True(t, pause(ctx, restartAfter+time.Second)) // the next one takes over before another goes
			s.count("worker drained")
		}
		require.True(t, pause(ctx, settled))
		require.Empty(t, s.failedOtherwise(ctx), "failed by the rolling restart")

		for _, part := range []stack.Part{stack.PartPostgres, stack.PartDocker} {
			s.breaks(true)
			s.Stack.Restart(t, part)
			s.breaks(false)
			s.count(string(part) + " restarted")
			require.True(t, pause(ctx, 2*settled))
		}
	})
}

// settled is about what a run needs here.
const settled = 2 * ttl

// failedOtherwise are the runs that are over and ended in another way than their job does by itself.
func (s *soak) failedOtherwise(ctx context.Context) []string {
	rows, err := s.db.Query(ctx, `
		SELECT id || ': ' || disposition || ' ' || code FROM ops_run
		WHERE finished_at IS NOT NULL AND cancel_requested_at IS NULL AND code NOT IN ('', 'session_failed', 'path_not_granted', 'baseline_moved')`)
	require.NoError(s.t, err)
	failed, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(s.t, err)
	return failed
}

func (s *soak) count(fault string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[fault]++
}

func (s *soak) breaks(breaking bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.breaking = breaking
}
