package queue

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/rein-aharness/harness/rein/credential"
)

// Reconciles reports whether the lease was taken over to settle the run, and not to execute it.
func (l *Lease) Reconciles() bool { return l.kind == kindReconcile }

// LiveTokens lists the tokens of a run that nobody has seen revoked.
func (s *Store) LiveTokens(ctx context.Context, run string) (tokens []credential.Token, err error) {
	err = s.patiently(ctx, func(ctx context.Context) error {
		rows, err := s.pool.Query(ctx, `
			SELECT accessor, run_id, epoch, purpose, expires_at FROM run_token
			WHERE run_id = $1 AND revoked_at IS NULL ORDER BY recorded_at`, run)
		if err != nil {
			return err
		}
		tokens, err = pgx.CollectRows(rows, pgx.RowToStructByPos[credential.Token])
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the tokens of run %s: %w", run, err)
	}
	return tokens, nil
}

// FenceValues lists the values that were recorded for a run's fence before they were set: one, or none.
func (s *Store) FenceValues(ctx context.Context, run string) (values []string, err error) {
	err = s.patiently(ctx, func(ctx context.Context) error {
		rows, err := s.pool.Query(ctx, `SELECT value FROM run_fence WHERE run_id = $1`, run)
		if err != nil {
			return err
		}
		values, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the fence of run %s: %w", run, err)
	}
	return values, nil
}
