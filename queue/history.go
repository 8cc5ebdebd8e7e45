package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rein-aharness/harness/evidence"
)

// Revision is one document that was applied under a definition's name.
type Revision struct {
	Number    int
	Digest    string
	AppliedBy string
	AppliedAt time.Time
}

// Revisions lists the revisions of a definition, the newest first.
func (s *Store) Revisions(ctx context.Context, name string) ([]Revision, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT number, digest, applied_by, applied_at FROM definition_revision WHERE definition = $1 ORDER BY number DESC`, name)
	if err != nil {
		return nil, fmt.Errorf("list revisions: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Revision])
}

// TickState is where a tick of a schedule stands.
type TickState string

// The states of a tick.
const (
	TickPending TickState = "pending" // to be emitted
	TickEmitted TickState = "emitted" // its run is under way
	TickEnded   TickState = "ended"   // its run is over, and whether an attempt follows is decided
	TickRefused TickState = "refused" // nothing was emitted
	TickDropped TickState = "dropped" // the database was restored; whether it was emitted nobody knows
)

// PastTick is one due time of a definition that counted, or a further attempt at one, with its run.
type PastTick struct {
	Due        time.Time
	Attempt    int
	Revision   int
	Missed     int // due times before this one that did not count
	State      TickState
	Code       evidence.Code // of the last try to emit it that failed
	Tries      int
	NextTryAt  time.Time // of a pending one
	TriggerKey string
	Supersedes string

	Run     string // empty, as are the next three, while there is none
	RunIs   evidence.State
	Effect  evidence.Effect
	RunCode evidence.Code
}

// Ticks lists the ticks of a definition, the newest first, at most limit.
func (s *Store) Ticks(ctx context.Context, name string, limit int) ([]PastTick, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT t.due_at, t.attempt, t.revision, t.missed, t.state, t.code, t.tries, t.next_try_at, t.trigger_key,
			coalesce(t.supersedes, ''), coalesce(o.id, ''), coalesce(o.state, ''), coalesce(o.effect, ''), coalesce(o.code, '')
		FROM definition_tick t LEFT JOIN ops_run o ON o.id = t.run_id
		WHERE t.definition = $1 ORDER BY t.due_at DESC, t.attempt DESC LIMIT $2`, name, limit)
	if err != nil {
		return nil, fmt.Errorf("list ticks: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[PastTick])
}
