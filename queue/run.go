package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rein-aharness/harness/evidence"
)

// Run is one row of ops_run as it was when it was read.
type Run struct {
	ID    string
	State evidence.State

	Definition     string
	TriggerKey     string
	OperationKey   string
	RequestDigest  string
	ContractBytes  []byte // canonical
	ContractDigest string
	Repository     string
	BaseRef        string
	TargetRef      string
	Baseline       string
	Profile        string // name@version
	ProfileDigest  string
	Proof          string // label, or empty
	Attended       bool
	Operator       string
	Supersedes     string
	Queue          string
	CreatedAt      time.Time
	DeadlineAt     time.Time

	Epoch     int64
	Owner     string // of the last lease
	WorkerID  string
	Engine    string
	ExpiresAt *time.Time // nil when there is no lease
	ClaimedAt *time.Time
	StartedAt *time.Time
	Stage     evidence.Stage
	Effect    evidence.Effect

	CancelRequestedAt *time.Time
	CancelBy          string
	CancelReason      string

	NextCheckAt *time.Time
	WaitReason  string

	FinishedAt  *time.Time
	FailedStage evidence.Stage // empty for a run that completed
	Code        evidence.Code
	Disposition evidence.Outcome
	Result      []byte // canonical Result; nil before the close
	Statement   []byte // DSSE envelope; nil before the close
}

// Contract decodes the run's contract and checks it against its digest.
func (r Run) Contract() (Contract, error) {
	return DecodeContract(r.ContractBytes, r.ContractDigest)
}

const runColumns = `id, state, definition, trigger_key, operation_key, request_digest, contract, contract_digest, repository,
	base_ref, target_ref, baseline, profile, profile_digest, proof, attended, operator, coalesce(supersedes, ''), queue, created_at,
	deadline_at, lease_epoch, coalesce(lease_owner, ''), coalesce(lease_worker, ''), coalesce(lease_engine, ''), lease_expires_at,
	claimed_at, started_at, stage, effect, cancel_requested_at, coalesce(cancel_by, ''), coalesce(cancel_reason, ''),
	next_check_at, coalesce(wait_reason, ''), finished_at, coalesce(failed_stage, ''), coalesce(code, ''),
	coalesce(disposition, ''), result, statement`

func scanRun(row pgx.CollectableRow) (Run, error) {
	var r Run
	err := row.Scan(&r.ID, &r.State, &r.Definition, &r.TriggerKey, &r.OperationKey, &r.RequestDigest, &r.ContractBytes, &r.ContractDigest,
		&r.Repository, &r.BaseRef, &r.TargetRef, &r.Baseline, &r.Profile, &r.ProfileDigest, &r.Proof, &r.Attended, &r.Operator,
		&r.Supersedes, &r.Queue, &r.CreatedAt, &r.DeadlineAt, &r.Epoch, &r.Owner, &r.WorkerID, &r.Engine, &r.ExpiresAt,
		&r.ClaimedAt, &r.StartedAt, &r.Stage, &r.Effect, &r.CancelRequestedAt, &r.CancelBy, &r.CancelReason,
		&r.NextCheckAt, &r.WaitReason, &r.FinishedAt, &r.FailedStage, &r.Code, &r.Disposition, &r.Result, &r.Statement)
	return r, err
}

type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func queryRuns(ctx context.Context, q querier, tail string, args ...any) ([]Run, error) {
	rows, err := q.Query(ctx, `SELECT `+runColumns+` FROM ops_run `+tail, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanRun)
}

func (s *Store) oneRun(ctx context.Context, tail string, args ...any) (Run, error) {
	runs, err := queryRuns(ctx, s.pool, tail, args...)
	if err != nil {
		return Run{}, fmt.Errorf("read a run: %w", err)
	}
	if len(runs) == 0 {
		return Run{}, ErrNotFound
	}
	return runs[0], nil
}

// Run reads one run, or ErrNotFound.
func (s *Store) Run(ctx context.Context, id string) (Run, error) {
	var run Run
	err := s.patiently(ctx, func(ctx context.Context) (err error) {
		run, err = s.oneRun(ctx, `WHERE id = $1`, id)
		return err
	})
	if errors.Is(err, ErrNotFound) {
		return Run{}, fmt.Errorf("%w: %s", ErrNotFound, id)
	}
	return run, err
}

// Filter chooses runs. Zero fields do not restrict.
type Filter struct {
	Definition string
	Repository string // canonical identity
	States     []evidence.State
	Stuck      bool   // those that wait for the remote, or should have been acted for by now
	Before     string // a run's id: only those emitted before it, for the next page
	Limit      int    // default 50, at most 1000
}

// Runs lists runs, the newest first.
func (s *Store) Runs(ctx context.Context, f Filter) ([]Run, error) {
	var where []string
	var args []any
	add := func(condition string, arg any) {
		args = append(args, arg)
		where = append(where, strings.ReplaceAll(condition, "?", fmt.Sprintf("$%d", len(args))))
	}
	if f.Definition != "" {
		add(`definition = ?`, f.Definition)
	}
	if f.Repository != "" {
		add(`repository = ?`, f.Repository)
	}
	if len(f.States) > 0 {
		add(`state = ANY(?)`, f.States)
	}
	if f.Stuck {
		add(`state NOT IN ('completed', 'failed', 'cancelled', 'expired') AND (state = 'waiting_external'
			OR run_due(ops_run) = 'reconcile' AND coalesce(lease_expires_at, created_at) < clock_timestamp() - ? * interval '1 millisecond')`,
			s.config.TTL.Milliseconds())
	}
	if f.Before != "" {
		add(`(created_at, id) < (SELECT b.created_at, b.id FROM ops_run b WHERE b.id = ?)`, f.Before)
	}
	if f.Limit <= 0 {
		f.Limit = 50
	}
	tail := ""
	if len(where) > 0 {
		tail = `WHERE ` + strings.Join(where, ` AND `)
	}
	args = append(args, min(f.Limit, 1000))
	runs, err := queryRuns(ctx, s.pool, tail+fmt.Sprintf(` ORDER BY created_at DESC, id DESC LIMIT $%d`, len(args)), args...)
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	return runs, nil
}

// UnknownRuns gives those of the ids that this database has no run for: after a restore, what was emitted and lost. (A51)
func (s *Store) UnknownRuns(ctx context.Context, ids []string) ([]string, error) {
	rows, err := s.pool.Query(ctx, `SELECT i FROM unnest($1::text[]) AS i WHERE NOT EXISTS (SELECT FROM ops_run WHERE id = i) ORDER BY i`, ids)
	if err != nil {
		return nil, fmt.Errorf("look for unknown runs: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// isNone reports that a query that may find nothing has found nothing.
func isNone(err error) bool { return errors.Is(err, pgx.ErrNoRows) }
