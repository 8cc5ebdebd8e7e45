package queue

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"github.com/jackc/pgx/v5"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/internal/boottime"
	"github.com/rein-aharness/harness/internal/failpoint"
)

// Claimant is the worker process that wants to act for a run. (A16)
type Claimant struct {
	WorkerID string // the authenticated worker's name
	Nonce    string // of this process, so that a restarted worker owns nothing of its predecessor (CASES 9)
	Engine   string // the deployment's name for the worker's engine
	// Queue is the River queue of an attended run's process; empty claims unattended runs only. A takeover ignores it.
	Queue string
	// Epoch is the one that the claim is to make, and 0 any: a job that was dispatched for an earlier attempt claims nothing.
	Epoch int64
}

var claimantPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// Owner is what the lease and the evidence call the claimant.
func (c Claimant) Owner() string { return c.WorkerID + "/" + c.Nonce }

func (c Claimant) validate() error {
	for name, value := range map[string]string{"worker id": c.WorkerID, "nonce": c.Nonce, "engine": c.Engine} {
		if !claimantPattern.MatchString(value) {
			return fmt.Errorf("the claimant's %s does not fit %s", name, claimantPattern)
		}
	}
	return nil
}

// Claim takes the lease of a run that was never started, and the lock of its repository ref: the next epoch, for one TTL.
// (A16, A17, A36)
//
// Errors: ErrNotFound, ErrNotClaimable, ErrRefLocked, ErrRepositoryBusy, ErrPaused, ErrDatabaseReplaced. Any other is one of the database, and the run
// is left as it was or expires.
func (s *Store) Claim(ctx context.Context, run string, c Claimant) (*Lease, error) {
	if err := failpoint.Hit(failpoint.ClaimBefore); err != nil {
		return nil, fmt.Errorf("claim run %s: %w", run, err)
	}
	lease, err := s.acquire(ctx, run, c, acquisition{kind: kindRun}, func(tx pgx.Tx, r Run) error {
		queue := c.Queue
		if queue == "" {
			queue = queueRun
		}
		if r.Queue != queue {
			return fmt.Errorf("%w: it belongs to another queue", ErrNotClaimable)
		}
		if err := lockRef(ctx, tx, r); err != nil {
			return err
		}
		return checkRepository(ctx, tx, r)
	})
	if err != nil {
		return nil, fmt.Errorf("claim run %s: %w", run, err)
	}
	return lease, failpoint.Hit(failpoint.ClaimAfter)
}

// TakeOver takes the lease of a run that has to be settled: cancelled, started and left behind, waiting for the remote and due, or
// past its deadline. The state stays; the holder settles it and closes or defers. It works while the harness is paused.
// With early set, a run that waits for the remote need not be due.
//
// Errors: ErrNotFound, ErrNotClaimable, ErrDatabaseReplaced, or one of the database.
func (s *Store) TakeOver(ctx context.Context, run string, c Claimant, early bool) (*Lease, error) {
	lease, err := s.acquire(ctx, run, c, acquisition{kind: kindReconcile, early: early}, func(tx pgx.Tx, r Run) error {
		_, err := tx.Exec(ctx, `UPDATE ref_lock SET epoch = $2 WHERE run_id = $1`, r.ID, r.Epoch)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("take over run %s: %w", run, err)
	}
	return lease, nil
}

// acquisition is what a lease is wanted for.
type acquisition struct {
	kind  jobKind
	early bool // of a run that waits for the remote and is not due
}

// acquire takes the lease of a run for which the kind of job is due, and then calls also with the run as it has become.
func (s *Store) acquire(ctx context.Context, id string, c Claimant, a acquisition, also func(pgx.Tx, Run) error) (*Lease, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	var lease *Lease
	requested := boottime.Now()
	operation := failpoint.Begin(string(a.kind.stage()), id, c.Owner(), c.Epoch)
	err := s.transact(ctx, func(tx pgx.Tx) error {
		// The run's row before the control row, here as everywhere.
		if err := checkDue(ctx, tx, id, a, c.Epoch); err != nil {
			return err
		}
		if err := s.checkControl(ctx, tx, a.kind == kindRun); err != nil {
			return err
		}
		state := ""
		if a.kind == kindRun {
			state = string(evidence.StateRunning)
		}
		rows, err := tx.Query(ctx, `
			UPDATE ops_run SET state = coalesce(nullif($2, ''), state), lease_epoch = lease_epoch + 1, lease_owner = $3,
				lease_worker = $4, lease_engine = $5, claimed_at = clock_timestamp(), stage = $6,
				lease_expires_at = clock_timestamp() + $7 * interval '1 millisecond'
			WHERE id = $1 RETURNING `+runColumns, id, state, c.Owner(), c.WorkerID, c.Engine, a.kind.stage(), s.config.TTL.Milliseconds())
		if err != nil {
			return err
		}
		run, err := pgx.CollectExactlyOneRow(rows, scanRun)
		if err != nil {
			return err
		}
		if err := also(tx, run); err != nil {
			return err
		}
		lease, err = s.newLease(ctx, tx, run, a.kind, requested)
		return err
	})
	if err != nil {
		operation.End(c.Epoch, err)
		return nil, err
	}
	operation.End(lease.Epoch(), nil)
	return lease, nil
}

// checkDue locks the run's row and decides, after the lock was granted, whether it may be acquired.
func checkDue(ctx context.Context, tx pgx.Tx, id string, a acquisition, epoch int64) error {
	if a.early {
		_, err := tx.Exec(ctx, `
			UPDATE ops_run SET next_check_at = clock_timestamp() WHERE id = $1 AND state = 'waiting_external'`, id)
		if err != nil {
			return err
		}
	}
	var due string
	var current int64
	err := tx.QueryRow(ctx, `
		WITH locked AS MATERIALIZED (SELECT * FROM ops_run WHERE id = $1 FOR UPDATE)
		SELECT coalesce(run_due(locked::ops_run), ''), lease_epoch FROM locked`, id).Scan(&due, &current)
	switch {
	case isNone(err):
		return ErrNotFound
	case err != nil:
		return err
	case due != string(a.kind):
		return ErrNotClaimable
	case epoch != 0 && epoch != current+1:
		return fmt.Errorf("%w: epoch %d is past", ErrNotClaimable, epoch)
	}
	return nil
}

// lockRef takes the repository ref for the run, or renews what it holds from an earlier epoch. (A36)
func lockRef(ctx context.Context, tx pgx.Tx, r Run) error {
	tag, err := tx.Exec(ctx, `
		INSERT INTO ref_lock (repository, target_ref, run_id, epoch) VALUES ($1, $2, $3, $4)
		ON CONFLICT (repository, target_ref) DO UPDATE SET epoch = excluded.epoch WHERE ref_lock.run_id = excluded.run_id`,
		r.Repository, r.TargetRef, r.ID, r.Epoch)
	if err != nil {
		return err
	}
	if tag.RowsAffected() == 0 {
		return ErrRefLocked
	}
	return nil
}

// checkRepository leaves the run alone while as many runs work on its repository as its own definition, or that of one of them,
// allows. Claims on one repository are decided one after the other.
func checkRepository(ctx context.Context, tx pgx.Tx, r Run) error {
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1, hashtext($2))`, repositoryLock, r.Repository); err != nil {
		return err
	}
	var busy bool
	if err := tx.QueryRow(ctx, `SELECT repository_busy(o) FROM ops_run o WHERE id = $1`, r.ID).Scan(&busy); err != nil {
		return err
	}
	if busy {
		return ErrRepositoryBusy
	}
	return nil
}

// repositoryLock is the first half of the advisory lock under which claims on one repository are decided; its name is the other.
const repositoryLock = 0x7265706f

// newLease makes the lease of a run that was just acquired, and stores the fact of it.
func (s *Store) newLease(ctx context.Context, tx pgx.Tx, r Run, kind jobKind, requested boottime.Instant) (*Lease, error) {
	facts, err := loadFacts(ctx, tx, r.ID)
	if err != nil {
		return nil, err
	}
	chain, err := evidence.Resume(facts)
	if err != nil {
		return nil, fmt.Errorf("the stored evidence of run %s: %w", r.ID, err)
	}
	if r.ExpiresAt == nil {
		return nil, errors.New("the lease has no expiry")
	}
	_, err = chain.Append(s.Now(), r.Epoch, kind.stage(), evidence.SourceObserved, evidence.Claimed{
		WorkerID: r.WorkerID, Owner: r.Owner, Engine: r.Engine, TTLMillis: s.config.TTL.Milliseconds(),
		ExpiresAt: evidence.FormatTime(*r.ExpiresAt),
	})
	if err != nil {
		return nil, fmt.Errorf("record the claim: %w", err)
	}
	if err := storeFacts(ctx, tx, r.ID, chain.Facts()); err != nil {
		return nil, err
	}
	return &Lease{store: s, run: r, kind: kind, chain: chain, beatAt: requested}, nil
}
