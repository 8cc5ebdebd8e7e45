package queue

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/internal/boottime"
	"github.com/rein-aharness/harness/internal/failpoint"
)

// Lease is the right to act for one run in one epoch. It holds as long as it is kept (Keep), and every write is refused once it is
// lost. Its methods may be called from several goroutines.
type Lease struct {
	store *Store
	run   Run
	kind  jobKind
	chain *evidence.Chain

	mu     sync.Mutex
	beatAt boottime.Instant // when the last heartbeat that succeeded was asked for
	lost   error            // why the lease is known to be lost
	done   bool             // closed, deferred or released
}

// Run is the run as it was acquired.
func (l *Lease) Run() Run { return l.run }

// Epoch is the fencing token.
func (l *Lease) Epoch() int64 { return l.run.Epoch }

// Owner is the worker and its process.
func (l *Lease) Owner() string { return l.run.Owner }

// Facts are all facts of the run so far, also those not stored yet.
func (l *Lease) Facts() []evidence.Fact { return l.chain.Facts() }

// Record appends a fact. It is stored with the next write of the lease.
func (l *Lease) Record(stage evidence.Stage, source evidence.Source, body evidence.Body) error {
	_, err := l.chain.Append(l.store.Now(), l.run.Epoch, stage, source, body)
	if err != nil {
		return fmt.Errorf("record %s: %w", body.Kind(), err)
	}
	return nil
}

// Start marks the run as started: from here on it is settled and never claimed again. It is committed before anything outside is
// changed. Facts recorded so far are stored with it.
func (l *Lease) Start(ctx context.Context) error {
	return l.write(ctx, "start", func(tx pgx.Tx, _ holding) error {
		// When a first try was rolled back, its fact is there already and decides the time.
		before, recorded, err := evidence.First[evidence.Started](l.chain.Facts())
		if err != nil {
			return err
		}
		var at time.Time
		err = tx.QueryRow(ctx, `
			UPDATE ops_run SET started_at = coalesce(started_at, nullif($3, '')::timestamptz, clock_timestamp()), stage = $2
			WHERE id = $1 RETURNING started_at`, l.run.ID, evidence.StagePreflight, before.At).Scan(&at)
		if err != nil || recorded {
			return err
		}
		err = l.Record(evidence.StagePreflight, evidence.SourceObserved, evidence.Started{At: evidence.FormatTime(at)})
		if err != nil {
			return err
		}
		return storeFacts(ctx, tx, l.run.ID, l.chain.Facts())
	})
}

// Stage shows that the run has come to a stage, and stores what was recorded.
func (l *Lease) Stage(ctx context.Context, stage evidence.Stage) error {
	return l.write(ctx, "stage", func(tx pgx.Tx, _ holding) error {
		_, err := tx.Exec(ctx, `UPDATE ops_run SET stage = $2 WHERE id = $1`, l.run.ID, stage)
		return err
	})
}

// Check asks the database whether the lease holds and the run may go on to publish: not cancelled, not paused. It is asked once
// more right before the send. (B25)
func (l *Lease) Check(ctx context.Context) error {
	return l.write(ctx, "check", func(tx pgx.Tx, _ holding) error {
		return l.store.checkControl(ctx, tx, true)
	})
}

// Release gives the lease back. A run that was not started becomes claimable again, by anyone, at once; one that was taken over
// is due again. ErrStarted when a worker has started it: then it is closed or left to expire.
func (l *Lease) Release(ctx context.Context) error {
	err := l.write(ctx, "release", func(tx pgx.Tx, h holding) error {
		if l.kind == kindReconcile {
			_, err := tx.Exec(ctx, `UPDATE ops_run SET lease_expires_at = NULL WHERE id = $1`, l.run.ID)
			if err != nil {
				return err
			}
			return l.store.dispatch(ctx, tx, job{run: l.run.ID, kind: kindReconcile, epoch: l.run.Epoch + 1, queue: queueReconcile})
		}
		if h.started {
			return ErrStarted
		}
		if _, err := tx.Exec(ctx, `DELETE FROM ref_lock WHERE run_id = $1`, l.run.ID); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `UPDATE ops_run SET state = $2, lease_expires_at = NULL WHERE id = $1`, l.run.ID, evidence.StateCreated)
		if err != nil {
			return err
		}
		return l.store.dispatch(ctx, tx, job{run: l.run.ID, kind: kindRun, epoch: l.run.Epoch + 1, queue: l.run.Queue})
	})
	l.finish(err)
	return err
}

// holding is what the guard saw of the run's row.
type holding struct {
	state   evidence.State
	started bool
}

// write is the one way in which a lease holder writes: it locks the run's row, sees that the lease is the holder's by the database's
// clock, stores the facts recorded so far, and lets fn write. A database that does not answer is asked again as long as the lease
// lasts; then the lease is lost. fn may run more than once, and again after a commit whose answer was lost.
func (l *Lease) write(ctx context.Context, what string, fn func(tx pgx.Tx, h holding) error) error {
	err := persist(ctx, func() error { return l.tryWrite(ctx, what, fn) })
	if err != nil {
		return fmt.Errorf("%s of run %s: %w", what, l.run.ID, err)
	}
	return nil
}

func (l *Lease) tryWrite(ctx context.Context, what string, fn func(pgx.Tx, holding) error) error {
	left, err := l.left()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	operation := failpoint.Begin(what, l.run.ID, l.run.Owner, l.run.Epoch)
	err = l.store.transact(ctx, func(tx pgx.Tx) error {
		h, err := l.guard(ctx, tx)
		if err != nil {
			return err
		}
		if err := storeFacts(ctx, tx, l.run.ID, l.chain.Facts()); err != nil {
			return err
		}
		return fn(tx, h)
	})
	operation.End(l.run.Epoch, err)
	return err
}

// guard locks the row and, once it is locked, compares epoch, owner and time. (A16)
func (l *Lease) guard(ctx context.Context, tx pgx.Tx) (holding, error) {
	var h holding
	var held, cancelled bool
	err := tx.QueryRow(ctx, `
		WITH locked AS MATERIALIZED (SELECT * FROM ops_run WHERE id = $1 FOR UPDATE)
		SELECT state, started_at IS NOT NULL, cancel_requested_at IS NOT NULL,
			coalesce(lease_epoch = $2 AND lease_owner = $3 AND lease_expires_at > clock_timestamp(), false)
		FROM locked`, l.run.ID, l.run.Epoch, l.run.Owner).Scan(&h.state, &h.started, &cancelled, &held)
	switch {
	case isNone(err):
		return h, ErrNotFound
	case err != nil:
		return h, err
	case !held:
		return h, l.lose(cancelled && l.kind == kindRun)
	}
	return h, nil
}

// left is how long the holder may still trust the lease without asking, and an error when it may not.
func (l *Lease) left() (time.Duration, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost != nil {
		return 0, l.lost
	}
	if l.done {
		return 0, fmt.Errorf("%w: it was given back", ErrLeaseLost)
	}
	left := l.store.config.holds(boottime.Since(l.beatAt))
	if left <= 0 {
		l.lost = fmt.Errorf("%w: not renewed in time", ErrLeaseLost)
		return 0, l.lost
	}
	return left, nil
}

// lose remembers that the database no longer knows the lease.
func (l *Lease) lose(cancelled bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost == nil {
		l.lost = ErrLeaseLost
		if cancelled {
			l.lost = fmt.Errorf("%w: %w", ErrLeaseLost, ErrCancelRequested)
		}
	}
	return l.lost
}

// finish marks a lease that was given back.
func (l *Lease) finish(err error) {
	if err != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done = true
}

// Held reports whether the lease was neither given back nor lost, as far as the holder knows without asking.
func (l *Lease) Held() bool {
	_, err := l.left()
	return err == nil
}
