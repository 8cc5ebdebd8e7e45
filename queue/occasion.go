package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rein-aharness/harness/evidence"
)

// Scheduled is a tick that is to be emitted: a due time of a definition, or a further attempt at one.
type Scheduled struct {
	Name     string
	Due      time.Time
	Attempt  int // from 1
	Document []byte
	// TriggerKey follows from the three above alone.
	TriggerKey string
	Supersedes string // the run before; empty for the first attempt
	Tries      int    // this one included
}

// Request makes the request to emit. The operation key is that of the first attempt. (B30)
func (t Scheduled) Request() (Request, error) {
	d, err := decodeDefinition(t.Name, t.Document)
	if err != nil {
		return Request{}, err
	}
	return d.Request(Occasion{
		TriggerKey: t.TriggerKey, OperationKey: triggerKey(t.Name, t.Due, 1), Supersedes: t.Supersedes,
	}), nil
}

const (
	// The wait after an emission that failed and may succeed later doubles from the first to the last of these.
	firstAgain = 5 * time.Second
	lastAgain  = 10 * time.Minute
)

// EmitScheduled takes the tick that has waited longest, lets emit make its run, and notes what became of it; false when there was
// none to take. A failure that would refuse a run is the end of the tick, since trying again would not help; after any other it is
// tried again, without end and ever more slowly, and the error says why.
func (s *Store) EmitScheduled(ctx context.Context, emit func(context.Context, Scheduled) (Run, error)) (bool, error) {
	t, err := s.takeScheduled(ctx)
	if err != nil || t == nil {
		return false, err
	}
	bounded, cancel := context.WithTimeout(ctx, s.emitWithin())
	defer cancel()
	run, failure := emit(bounded, *t)
	code := evidence.CodeOf(failure)
	switch {
	case failure == nil:
		err = s.settleScheduled(ctx, *t, `state = 'emitted', run_id = $4, code = ''`, run.ID)
	case refuses(code):
		s.config.Logger.Error("a tick of a schedule was refused", "trigger", t.TriggerKey, "error", failure)
		err = s.settleScheduled(ctx, *t, `state = 'refused', code = $4`, code)
	default:
		wait := min(firstAgain<<min(t.Tries-1, 10), lastAgain)
		err = s.settleScheduled(ctx, *t, `code = $4, next_try_at = clock_timestamp() + $5 * interval '1 millisecond'`, code, wait.Milliseconds())
		err = errors.Join(failure, err)
	}
	if err != nil {
		err = fmt.Errorf("emit %s: %w", t.TriggerKey, err)
	}
	return true, err
}

// emitWithin bounds one emission. For as long the tick belongs to whoever took it, and then to anyone: a worker that died holds it up
// for no longer, and the trigger key keeps two of them from giving two runs.
func (s *Store) emitWithin() time.Duration { return 2 * s.config.TTL }

// refuses reports whether the code is one that refuses a run for what it asks, which no waiting changes. A permission that the remote
// does not give is waited for: it is given there, and nothing is changed here.
func refuses(code evidence.Code) bool {
	if code == evidence.CodeRemoteDenied || code == evidence.CodeUnclassified {
		return false
	}
	return slices.ContainsFunc(evidence.Table(), func(row evidence.Row) bool {
		return row.Code == code &&
			(row.Outcome == evidence.OutcomeDefinitionError && slices.Contains(row.Stages, evidence.StageEmit) ||
				row.Outcome == evidence.OutcomeRefused && slices.Contains(row.Stages, evidence.StageResolve))
	})
}

// takeScheduled takes the tick that has been due longest, or none.
func (s *Store) takeScheduled(ctx context.Context) (*Scheduled, error) {
	var taken []Scheduled
	err := s.transact(ctx, func(tx pgx.Tx) error {
		if err := s.checkControl(ctx, tx, true); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `
			WITH next AS MATERIALIZED (
				SELECT t.* FROM definition_tick t JOIN definition d ON d.name = t.definition
				WHERE t.state = 'pending' AND t.next_try_at <= clock_timestamp() AND NOT d.paused
				ORDER BY t.next_try_at LIMIT 1 FOR UPDATE OF t SKIP LOCKED)
			UPDATE definition_tick t SET tries = t.tries + 1, next_try_at = clock_timestamp() + $1 * interval '1 millisecond'
			FROM next JOIN definition_revision v ON v.definition = next.definition AND v.number = next.revision
			WHERE (t.definition, t.due_at, t.attempt) = (next.definition, next.due_at, next.attempt)
			RETURNING t.definition, t.due_at, t.attempt, v.document, t.trigger_key, coalesce(t.supersedes, ''), t.tries`,
			s.emitWithin().Milliseconds())
		if err != nil {
			return err
		}
		taken, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Scheduled])
		return err
	})
	switch {
	case stopped(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("take a tick: %w", err)
	case len(taken) == 0:
		return nil, nil
	}
	return &taken[0], nil
}

// settleScheduled notes what became of a tick. Only one that is still to be emitted changes.
func (s *Store) settleScheduled(ctx context.Context, t Scheduled, set string, args ...any) error {
	return s.transact(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE definition_tick SET `+set+` WHERE definition = $1 AND due_at = $2 AND attempt = $3 AND state = 'pending'`,
			append([]any{t.Name, t.Due, t.Attempt}, args...)...)
		return err
	})
}

// dropSchedules decides everything that is due in an adopted database as missed, and drops what was to be emitted: either may have
// been emitted in what was lost.
func dropSchedules(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, `
		WITH decided AS (UPDATE definition SET decided_to = greatest(decided_to, clock_timestamp()))
		UPDATE definition_tick SET state = 'dropped' WHERE state = 'pending'`)
	return err
}
