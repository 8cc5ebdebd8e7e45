package history

import (
	"context"
	_ "embed"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Audit is the trigger that writes down every change of a run's row.
//
//go:embed audit.sql
var Audit string

// Change is one change of a run's row, as the database made it.
type Change struct {
	Seq      int64     `json:"seq"`
	At       time.Time `json:"at"`
	Run      string    `json:"run"`
	WasEpoch int64     `json:"was_epoch"`
	Epoch    int64     `json:"epoch"`
	WasOwner string    `json:"was_owner,omitempty"`
	Owner    string    `json:"owner,omitempty"`
	WasState string    `json:"was_state,omitempty"` // empty: the run was made
	State    string    `json:"state"`
	Started  bool      `json:"started"`
	Final    bool      `json:"final"`
}

// ReadChanges reads what the trigger wrote down, in the database's order.
func ReadChanges(ctx context.Context, db *pgxpool.Pool) ([]Change, error) {
	rows, err := db.Query(ctx, `
		SELECT seq, at, run_id, was_epoch, epoch, was_owner, owner, was_state, state, started, final FROM audit_change ORDER BY seq`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Change])
}

// Transition is a legal change of a run's state.
type Transition struct{ From, To string }

// ReadTransitions reads the database's own table of them.
func ReadTransitions(ctx context.Context, db *pgxpool.Pool) ([]Transition, error) {
	rows, err := db.Query(ctx, `SELECT from_state, to_state FROM run_transition`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Transition])
}
