package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// standing is a definition's row, locked, at a time of the database.
type standing struct {
	Name      string
	Revision  int
	Digest    string
	Document  []byte
	DecidedTo time.Time
	Paused    bool
	Now       time.Time
}

const dueColumns = `d.name, d.revision, r.digest, r.document, d.decided_to, d.paused, clock_timestamp()`

// Look records as ticks what schedules have due by the database's clock, and the further attempts that follow runs which are over.
// It emits nothing. Any number of processes may look at once. While the harness is paused, or the database is not the one it was,
// it does nothing; what becomes due meanwhile is missed.
func (s *Store) Look(ctx context.Context) error {
	var errs []error
	seen := []string{} // each definition once, so that one that cannot be read holds up no other
	for {
		name, err := s.lookAtOne(ctx, seen)
		if err != nil {
			errs = append(errs, fmt.Errorf("look at the schedule of %q: %w", name, err))
		}
		if name == "" {
			break
		}
		seen = append(seen, name)
	}
	if err := s.follow(ctx); err != nil {
		errs = append(errs, fmt.Errorf("follow runs that are over: %w", err))
	}
	return errors.Join(errs...)
}

// stopped reports that a refusal by the control row means that nothing is to be done now.
func stopped(err error) bool { return errors.Is(err, ErrPaused) || errors.Is(err, ErrDatabaseReplaced) }

// lookAtOne decides the due times of one definition that is due and not among those seen, and names it. A definition of which a
// first attempt is still to be emitted is left: a remote that cannot be reached then piles up no ticks, but misses them.
func (s *Store) lookAtOne(ctx context.Context, seen []string) (name string, err error) {
	err = s.transact(ctx, func(tx pgx.Tx) error {
		if err := s.checkControl(ctx, tx, true); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `SELECT `+dueColumns+appliedTables+`
			WHERE NOT d.paused AND d.next_due <= clock_timestamp() AND d.name <> ALL ($1) AND NOT EXISTS (
				SELECT FROM definition_tick t WHERE t.definition = d.name AND t.state = 'pending' AND t.attempt = 1)
			ORDER BY d.next_due LIMIT 1 FOR UPDATE OF d SKIP LOCKED`, seen)
		if err != nil {
			return err
		}
		due, err := pgx.CollectRows(rows, pgx.RowToStructByPos[standing])
		if err != nil || len(due) == 0 {
			return err
		}
		name = due[0].Name
		return decide(ctx, tx, due[0])
	})
	if stopped(err) {
		return "", nil
	}
	return name, err
}

// decide records the due times of a definition that count, and moves on what is decided and when it is due next: all of it in the
// caller's transaction, so that no due time is lost and none counts twice. What is decided only rises, whatever the clock does.
// (CASES 6, 44)
func decide(ctx context.Context, tx pgx.Tx, d standing) error {
	definition, err := decodeDefinition(d.Name, d.Document)
	if err != nil || definition.Schedule == nil {
		return err
	}
	plan, err := definition.Schedule.Parse()
	if err != nil {
		return err
	}
	times, missed := plan.Due(d.DecidedTo, d.Now)
	for _, due := range times {
		_, err := tx.Exec(ctx, `
			INSERT INTO definition_tick (definition, due_at, attempt, revision, trigger_key, missed) VALUES ($1, $2, 1, $3, $4, $5)`,
			d.Name, due, d.Revision, triggerKey(d.Name, due, 1), missed)
		if err != nil {
			return err
		}
		missed = 0
	}
	decided := later(d.DecidedTo, d.Now)
	next, err := definition.next(decided)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `UPDATE definition SET decided_to = $2, next_due = $3 WHERE name = $1`, d.Name, decided, next)
	return err
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// follow decides, for each tick whose run is over, whether another attempt follows, and records it. (A47)
func (s *Store) follow(ctx context.Context) error {
	var errs []error
	err := s.transact(ctx, func(tx pgx.Tx) error {
		if err := s.checkControl(ctx, tx, true); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `
			SELECT t.definition, t.due_at, t.attempt, t.revision, t.run_id, v.document FROM definition_tick t
			JOIN ops_run o ON o.id = t.run_id JOIN definition_revision v ON v.definition = t.definition AND v.number = t.revision
			WHERE t.state = 'emitted' AND o.finished_at IS NOT NULL
			ORDER BY o.finished_at LIMIT $1 FOR UPDATE OF t SKIP LOCKED`, tickBatch)
		if err != nil {
			return err
		}
		over, err := pgx.CollectRows(rows, pgx.RowToStructByPos[overTick])
		if err != nil {
			return err
		}
		for _, t := range over {
			// Each under a savepoint, so that one that cannot be read holds up no other.
			err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { return t.follow(ctx, tx) })
			if err != nil {
				errs = append(errs, fmt.Errorf("run %s: %w", t.Run, err))
			}
		}
		return nil
	})
	if stopped(err) {
		return nil
	}
	return errors.Join(append(errs, err)...)
}

// overTick is a tick whose run is over.
type overTick struct {
	Definition string
	Due        time.Time
	Attempt    int
	Revision   int
	Run        string
	Document   []byte
}

// follow records the next attempt where the policy of the run's own revision has one and nobody else has emitted a successor.
func (t overTick) follow(ctx context.Context, tx pgx.Tx) error {
	definition, err := decodeDefinition(t.Definition, t.Document)
	if err != nil {
		return err
	}
	runs, err := queryRuns(ctx, tx, `WHERE id = $1`, t.Run)
	if err != nil {
		return err
	}
	again, wait, err := definition.Attempts.follow(runs[0], t.Attempt)
	if err != nil {
		return err
	}
	if again {
		_, err := tx.Exec(ctx, `
			INSERT INTO definition_tick (definition, due_at, attempt, revision, trigger_key, supersedes, next_try_at)
			SELECT $1, $2, $3, $4, $5, $6, $7::timestamptz + $8 * interval '1 millisecond'
			WHERE NOT EXISTS (SELECT FROM ops_run n WHERE n.supersedes = $6)`,
			t.Definition, t.Due, t.Attempt+1, t.Revision, triggerKey(t.Definition, t.Due, t.Attempt+1), t.Run,
			*runs[0].FinishedAt, wait.Milliseconds())
		if err != nil {
			return err
		}
	}
	_, err = tx.Exec(ctx, `UPDATE definition_tick SET state = 'ended' WHERE definition = $1 AND due_at = $2 AND attempt = $3`,
		t.Definition, t.Due, t.Attempt)
	return err
}
