package queue

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/repotx"
)

// Fence is a fence ref on a remote whose retention has ended.
type Fence struct {
	Run   Run
	Ref   string
	Value string // what it was left with; deleted only while it has this value
}

// RecordFence remembers the value that the run's fence is about to have on the remote. A run has one fence; another value or ref for
// it is CodeFenceConflict.
func (l *Lease) RecordFence(ctx context.Context, ref, value string) error {
	return l.write(ctx, "fence", func(tx pgx.Tx, _ holding) error {
		tag, err := tx.Exec(ctx, `
			INSERT INTO run_fence (run_id, fence_ref, value, epoch) VALUES ($1, $2, $3, $4)
			ON CONFLICT (run_id) DO UPDATE SET value = excluded.value
				WHERE run_fence.fence_ref = excluded.fence_ref AND run_fence.value = excluded.value`, l.run.ID, ref, value, l.run.Epoch)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return evidence.Fail(evidence.StagePreflight, evidence.CodeFenceConflict, ref, nil)
		}
		return nil
	})
}

// scheduleFence lets a closed run's fence be deleted once its retention has passed. A fence that no lease has recorded is on the remote
// as well: whoever settles a run that was lost before it had one closes what is absent.
func (s *Store) scheduleFence(ctx context.Context, tx pgx.Tx, r Run, value string) error {
	ref, err := repotx.FenceRef(r.ID)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO run_fence (run_id, fence_ref, value, epoch, due_at)
		SELECT $1, $2, coalesce(nullif($3, ''), (SELECT value FROM run_fence WHERE run_id = $1)), $4,
			clock_timestamp() + $5 * interval '1 millisecond'
		WHERE $3 <> '' OR EXISTS (SELECT FROM run_fence WHERE run_id = $1)
		ON CONFLICT (run_id) DO UPDATE SET value = excluded.value, due_at = excluded.due_at`,
		r.ID, ref, value, r.Epoch, s.config.FenceRetention.Milliseconds())
	return err
}

// DueFences lists fences whose retention has ended, the oldest first, at most limit.
func (s *Store) DueFences(ctx context.Context, limit int) ([]Fence, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT run_id, fence_ref, value FROM run_fence
		WHERE deleted_at IS NULL AND due_at <= clock_timestamp() ORDER BY due_at LIMIT $1`, limit)
	if err != nil {
		return nil, fmt.Errorf("list due fences: %w", err)
	}
	fences, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Fence, error) {
		var f Fence
		err := row.Scan(&f.Run.ID, &f.Ref, &f.Value)
		return f, err
	})
	if err != nil {
		return nil, fmt.Errorf("list due fences: %w", err)
	}
	for i := range fences {
		if fences[i].Run, err = s.Run(ctx, fences[i].Run.ID); err != nil {
			return nil, err
		}
	}
	return fences, nil
}

// FenceDeleted remembers that the fence is gone from the remote.
func (s *Store) FenceDeleted(ctx context.Context, run string) error {
	_, err := s.pool.Exec(ctx, `UPDATE run_fence SET deleted_at = clock_timestamp() WHERE run_id = $1 AND deleted_at IS NULL`, run)
	if err != nil {
		return fmt.Errorf("forget the fence of run %s: %w", run, err)
	}
	return nil
}
