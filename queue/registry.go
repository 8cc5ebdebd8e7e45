package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Process is a worker process as it last showed itself. It is for the operator; leases do not depend on it.
type Process struct {
	Owner       string
	WorkerID    string
	Engine      string
	Queues      []string
	Version     string
	Concurrency int
	StartedAt   time.Time
	BeatAt      time.Time
	StoppedAt   *time.Time
	Alive       bool // has shown itself within a TTL and has not stopped
}

// Processes lists the worker processes of the last week, the newest first.
func (s *Store) Processes(ctx context.Context) ([]Process, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT owner, worker_id, engine, queues, version, concurrency, started_at, beat_at, stopped_at,
			stopped_at IS NULL AND beat_at > clock_timestamp() - $1 * interval '1 millisecond'
		FROM worker WHERE beat_at > clock_timestamp() - interval '7 days' ORDER BY started_at DESC LIMIT 1000`,
		s.config.TTL.Milliseconds())
	if err != nil {
		return nil, fmt.Errorf("list worker processes: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Process])
}

// showWorker notes that the process lives, and forgets those that have been gone for long.
func (s *Store) showWorker(ctx context.Context, c WorkerConfig) error {
	var queues []string
	for name := range c.queues() {
		queues = append(queues, name)
	}
	_, err := s.pool.Exec(ctx, `
		WITH forgotten AS (DELETE FROM worker WHERE beat_at < clock_timestamp() - interval '30 days')
		INSERT INTO worker (owner, worker_id, engine, queues, version, concurrency) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (owner) DO UPDATE SET beat_at = clock_timestamp(), stopped_at = NULL`,
		c.Owner(), c.WorkerID, c.Engine, queues, c.Version, c.Concurrency)
	if err != nil {
		return fmt.Errorf("show worker %s: %w", c.Owner(), err)
	}
	return nil
}

func (s *Store) stopWorker(ctx context.Context, owner string) error {
	if _, err := s.pool.Exec(ctx, `UPDATE worker SET stopped_at = clock_timestamp() WHERE owner = $1`, owner); err != nil {
		return fmt.Errorf("note that worker %s has stopped: %w", owner, err)
	}
	return nil
}

// turn reports whether it is this process's turn to do a chore, which is due again after every.
func (s *Store) turn(ctx context.Context, name, owner string, every time.Duration) (bool, error) {
	var mine string
	err := s.pool.QueryRow(ctx, `
		INSERT INTO chore (name, next_at, owner) VALUES ($1, clock_timestamp() + $3 * interval '1 millisecond', $2)
		ON CONFLICT (name) DO UPDATE SET next_at = excluded.next_at, owner = excluded.owner WHERE chore.next_at <= clock_timestamp()
		RETURNING owner`, name, owner, every.Milliseconds()).Scan(&mine)
	if isNone(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look whether chore %s is due: %w", name, err)
	}
	return true, nil
}

func (s *Store) choreDone(ctx context.Context, name string, failure error) error {
	text := ""
	if failure != nil {
		text = "failed; the worker's log says why"
	}
	_, err := s.pool.Exec(ctx, `UPDATE chore SET last_error = $2 WHERE name = $1`, name, text)
	return err
}

// FailedChores lists the chores whose last turn failed.
func (s *Store) FailedChores(ctx context.Context) ([]string, error) {
	rows, err := s.pool.Query(ctx, `SELECT name FROM chore WHERE last_error <> '' ORDER BY name`)
	if err != nil {
		return nil, fmt.Errorf("list failed chores: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
