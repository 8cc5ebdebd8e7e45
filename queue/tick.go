package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rein-aharness/harness/internal/boottime"
)

// Ticked says what a tick found without a live job.
type Ticked struct {
	Runs, Reconciles, Deliveries int // dispatched
	Discarded                    int // River jobs of dead workers, put away
}

// tickLock is the advisory lock, held for one transaction, that lets one process tick at a time. Nobody is elected, so nobody's
// death leaves a gap, and a pooler in transaction mode is no obstacle.
const tickLock = 0x7469636b

// tickBatch bounds what one tick dispatches of each kind.
const tickBatch = 500

// Tick dispatches every claimable, cancelled, expired or due run and every due delivery that has no live job, so that no job is ever
// the only memory of one. It returns at once when another process is at it. (CASES 1, 4, 8)
func (s *Store) Tick(ctx context.Context) (Ticked, error) {
	var done Ticked
	err := s.transact(ctx, func(tx pgx.Tx) error {
		var mine, paused bool
		var now time.Time
		asked := boottime.Now()
		err := tx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock($1), paused, clock_timestamp() FROM control`, tickLock).Scan(&mine, &paused, &now)
		if err != nil {
			return err
		}
		s.clock.saw(now, asked)
		if !mine {
			return nil
		}
		if done.Discarded, err = s.discardDead(ctx, tx); err != nil {
			return err
		}
		if err := s.tickRuns(ctx, tx, paused, &done); err != nil {
			return err
		}
		done.Deliveries, err = s.tickDeliveries(ctx, tx)
		return err
	})
	if err != nil {
		return Ticked{}, fmt.Errorf("tick: %w", err)
	}
	return done, nil
}

// tickRuns dispatches runs. A job counts as dead when it ended, or is still running though its attempt would have taken the lease
// long ago. Runs whose ref another one works on are left; they are woken when it is let go of. So are
// those whose repository has as many runs as it may.
func (s *Store) tickRuns(ctx context.Context, tx pgx.Tx, paused bool, done *Ticked) error {
	rows, err := tx.Query(ctx, `
		SELECT r.id, due.kind, r.lease_epoch + 1, CASE due.kind WHEN 'run' THEN r.queue ELSE $3 END
		FROM ops_run r CROSS JOIN LATERAL (SELECT run_due(r) AS kind) due LEFT JOIN river_job j ON j.id = r.job_id
		WHERE r.state NOT IN ('completed', 'failed', 'cancelled', 'expired') AND due.kind IS NOT NULL
			AND (j.id IS NULL OR j.finalized_at IS NOT NULL OR j.kind <> 'harness_' || due.kind
				OR j.state = 'running' AND j.attempted_at < clock_timestamp() - $1 * interval '1 millisecond')
			AND (due.kind = 'reconcile' OR NOT $2 AND NOT EXISTS (
				SELECT FROM ref_lock l WHERE l.repository = r.repository AND l.target_ref = r.target_ref AND l.run_id <> r.id)
				AND NOT repository_busy(r))
		ORDER BY r.created_at LIMIT $4 FOR UPDATE OF r SKIP LOCKED`,
		s.config.TTL.Milliseconds(), paused, queueReconcile, tickBatch)
	if err != nil {
		return err
	}
	jobs, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (job, error) {
		var j job
		return j, row.Scan(&j.run, &j.kind, &j.epoch, &j.queue)
	})
	if err != nil {
		return err
	}
	for _, j := range jobs {
		if err := s.dispatch(ctx, tx, j); err != nil {
			return err
		}
		if j.kind == kindRun {
			done.Runs++
		} else {
			done.Reconciles++
		}
	}
	return nil
}

func (s *Store) tickDeliveries(ctx context.Context, tx pgx.Tx) (int, error) {
	rows, err := tx.Query(ctx, `
		SELECT d.id, d.attempts + 1 FROM delivery d LEFT JOIN river_job j ON j.id = d.job_id
		WHERE d.state = 'pending' AND d.next_attempt_at <= clock_timestamp()
			AND (j.id IS NULL OR j.finalized_at IS NOT NULL OR j.state = 'running' AND j.attempted_at < clock_timestamp() - interval '2 minutes')
		ORDER BY d.next_attempt_at LIMIT $1 FOR UPDATE OF d SKIP LOCKED`, tickBatch)
	if err != nil {
		return 0, err
	}
	due, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct {
		ID      string
		Attempt int
	}])
	if err != nil {
		return 0, err
	}
	for _, d := range due {
		if err := s.dispatchDelivery(ctx, tx, d.ID, d.Attempt); err != nil {
			return 0, err
		}
	}
	return len(due), nil
}

// discardDead puts away River's rows that a dead worker left as running. River would leave them for ever, since our jobs have no
// time limit of their own. Nothing depends on it but the sight of them. (CASES 1)
func (s *Store) discardDead(ctx context.Context, tx pgx.Tx) (int, error) {
	tag, err := tx.Exec(ctx, `
		UPDATE river_job j SET state = 'discarded', finalized_at = clock_timestamp()
		WHERE j.state = 'running' AND j.kind IN ('harness_run', 'harness_reconcile', 'harness_deliver')
			AND j.attempted_at < clock_timestamp() - $1 * interval '1 millisecond'
			AND NOT EXISTS (SELECT FROM worker w WHERE w.owner = j.attempted_by[array_upper(j.attempted_by, 1)]
				AND w.stopped_at IS NULL AND w.beat_at > clock_timestamp() - $1 * interval '1 millisecond')`, s.config.TTL.Milliseconds())
	return int(tag.RowsAffected()), err
}
