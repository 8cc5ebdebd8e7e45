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
		require.Empty(t, s.lost(ctx), "lost by the rolling restart")

		for _, part := range []stack.Part{stack.PartPostgres, stack.PartDocker} {
			s.breaks(true)
			s.Stack.Restart(t, part)
			s.db.Reset()                             // its idle connections are to the server that ended
			require.True(t, pause(ctx, time.Second)) // what was asked before is answered
			s.breaks(false)
			s.count(string(part) + " restarted")
			require.True(t, pause(ctx, 2*settled))
		}
	})
}

// settled is about what a run needs here.
const settled = 2 * ttl

// lost are the runs that their workers did not bring to an end.
func (s *soak) lost(ctx context.Context) []string {
	rows, err := s.db.Query(ctx, `SELECT id FROM ops_run WHERE code = 'worker_lost' OR lease_epoch > 1 AND cancel_requested_at IS NULL`)
	require.NoError(s.t, err)
	lost, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(s.t, err)
	return lost
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
