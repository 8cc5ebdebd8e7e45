package queue

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rein-aharness/harness/evidence"
)

// Control is what holds for all workers of the database.
type Control struct {
	Paused       bool
	PausedBy     string
	PausedReason string
	PausedAt     *time.Time

	// The database that the queue was made in or last adopted by, and the one that it is.
	SystemIdentifier, CurrentSystemIdentifier string
	Timeline, CurrentTimeline                 int
	Relation, CurrentRelation                 uint32 // the control table's object identifier: a dump that was loaded has another
	AdoptedBy                                 string
	AdoptedAt                                 *time.Time
}

// Replaced reports whether the database is another one than was last adopted: restored from a backup, or a replica that took over.
// Either may have lost leases that were given out. (A51)
func (c Control) Replaced() bool {
	return c.SystemIdentifier != c.CurrentSystemIdentifier || c.Timeline != c.CurrentTimeline || c.Relation != c.CurrentRelation
}

// Control reads it.
func (s *Store) Control(ctx context.Context) (Control, error) {
	var c Control
	err := s.pool.QueryRow(ctx, `
		SELECT paused, paused_by, paused_reason, paused_at, control.system_identifier, s.system_identifier::text, timeline,
			current_timeline(), relation, 'control'::regclass::oid, adopted_by, adopted_at
		FROM control, pg_control_system() s`).Scan(&c.Paused, &c.PausedBy, &c.PausedReason, &c.PausedAt, &c.SystemIdentifier,
		&c.CurrentSystemIdentifier, &c.Timeline, &c.CurrentTimeline, &c.Relation, &c.CurrentRelation, &c.AdoptedBy, &c.AdoptedAt)
	if err != nil {
		return Control{}, fmt.Errorf("read the control row: %w", err)
	}
	return c, nil
}

// Pause stops all claims and publications, of every worker. When it returns, none is under way that had not been decided before.
// Runs that work go on up to their acceptance; settling and delivering go on.
func (s *Store) Pause(ctx context.Context, by, reason string) error {
	_, err := s.pool.Exec(ctx, `
		UPDATE control SET paused = true, paused_by = $1, paused_reason = $2, paused_at = clock_timestamp()`, by, reason)
	if err != nil {
		return fmt.Errorf("pause: %w", err)
	}
	return nil
}

// Resume lets go what Pause stopped.
func (s *Store) Resume(ctx context.Context) error {
	_, err := s.pool.Exec(ctx, `UPDATE control SET paused = false, paused_by = '', paused_reason = '', paused_at = NULL`)
	if err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	return nil
}

// checkControl refuses in a database that was replaced, and with pausable also while the harness is paused. The shared lock makes
// Pause wait for the transactions that it came too late for.
func (s *Store) checkControl(ctx context.Context, tx pgx.Tx, pausable bool) error {
	var paused, same bool
	var lsn, adopted string
	err := tx.QueryRow(ctx, `
		SELECT paused, system_identifier = (SELECT system_identifier::text FROM pg_control_system())
			AND timeline = current_timeline() AND relation = 'control'::regclass, pg_current_wal_insert_lsn()::text, coalesce(adopted_at::text, '')
		FROM control FOR SHARE`).Scan(&paused, &same, &lsn, &adopted)
	if err != nil {
		return err
	}
	behind, err := s.seen.wentBack(lsn, adopted)
	if err != nil {
		return err
	}
	if !same || behind {
		return ErrDatabaseReplaced
	}
	if paused && pausable {
		return ErrPaused
	}
	return nil
}

// seenLog is the furthest position at which this process saw the database's log. A database that is behind it was set back to a
// snapshot, which changes neither its identifier nor its timeline.
type seenLog struct {
	mu      sync.Mutex
	adopted string
	lsn     uint64
}

// lsnSlack is how many bytes of log may be written between two looks of one process that overtake each other.
const lsnSlack = 256 << 20

// wentBack notes a position and reports whether it is behind one that was seen since the last adoption.
func (l *seenLog) wentBack(lsn, adopted string) (bool, error) {
	high, low, ok := strings.Cut(lsn, "/")
	h, errHigh := strconv.ParseUint(high, 16, 32)
	w, errLow := strconv.ParseUint(low, 16, 32)
	if !ok || errHigh != nil || errLow != nil {
		return false, fmt.Errorf("the database's log position %q is not one", lsn)
	}
	now := h<<32 | w
	l.mu.Lock()
	defer l.mu.Unlock()
	if adopted != l.adopted {
		l.adopted, l.lsn = adopted, 0
	}
	if now+lsnSlack < l.lsn {
		return true, nil
	}
	l.lsn = max(l.lsn, now)
	return false, nil
}

// adoptionStride is how far an adoption raises every epoch: to the next multiple, which no lease that was lost can have reached.
const adoptionStride = 1 << 20

// Adopt accepts that the database was replaced: every run that is not final gets an epoch above any that was issued in what was
// lost, counts as started, since it may have been, and is due to be settled from its remote. It returns those runs. What was
// emitted and lost cannot be seen here; UnknownRuns compares with what the remotes' fences name. (A51)
func (s *Store) Adopt(ctx context.Context, by string) ([]Run, error) {
	var runs []Run
	err := s.transact(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `
			UPDATE ops_run SET lease_epoch = (lease_epoch / $1 + 1) * $1, lease_expires_at = NULL, job_id = NULL,
				started_at = coalesce(started_at, clock_timestamp()),
				state = CASE WHEN state = 'created' THEN 'running'
					WHEN state IN ('waiting_approval', 'suspended') THEN 'waiting_external' ELSE state END,
				next_check_at = CASE WHEN state IN ('waiting_approval', 'suspended', 'waiting_external') THEN clock_timestamp() END,
				wait_reason = CASE WHEN state IN ('waiting_approval', 'suspended', 'waiting_external') THEN 'database adopted' END
			WHERE finished_at IS NULL RETURNING `+runColumns, int64(adoptionStride))
		if err != nil {
			return err
		}
		if runs, err = pgx.CollectRows(rows, scanRun); err != nil {
			return err
		}
		if err := dropSchedules(ctx, tx); err != nil {
			return err
		}
		// A lost lease may have held the ref: it is held until the run is settled. Of two runs on one ref the elder has it.
		_, err = tx.Exec(ctx, `
			INSERT INTO ref_lock (repository, target_ref, run_id, epoch)
			SELECT DISTINCT ON (repository, target_ref) repository, target_ref, id, lease_epoch FROM ops_run
			WHERE finished_at IS NULL ORDER BY repository, target_ref, created_at
			ON CONFLICT DO NOTHING`)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `
			UPDATE control SET system_identifier = (SELECT system_identifier::text FROM pg_control_system()),
				timeline = current_timeline(), relation = 'control'::regclass, adopted_by = $1, adopted_at = clock_timestamp()`, evidence.Clean(by, 128))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("adopt the database: %w", err)
	}
	return runs, nil
}

// OutlivedItsRecord reports whether a run was emitted before the database was last adopted: then it may have done what the database
// does not know any more. (A51)
func (s *Store) OutlivedItsRecord(ctx context.Context, run string) (outlived bool, err error) {
	err = s.patiently(ctx, func(ctx context.Context) error {
		return s.pool.QueryRow(ctx, `SELECT coalesce(r.created_at < c.adopted_at, false) FROM ops_run r, control c WHERE r.id = $1`, run).Scan(&outlived)
	})
	if err != nil {
		return false, fmt.Errorf("ask whether run %s is older than the last adoption: %w", run, err)
	}
	return outlived, nil
}

// CheckNow makes a run that waits for the remote due at once. ErrNotClaimable when it does not wait.
func (s *Store) CheckNow(ctx context.Context, run string) error {
	err := s.transact(ctx, func(tx pgx.Tx) error {
		var epoch int64
		err := tx.QueryRow(ctx, `
			UPDATE ops_run SET next_check_at = clock_timestamp()
			WHERE id = $1 AND state = 'waiting_external' RETURNING lease_epoch`, run).Scan(&epoch)
		if isNone(err) {
			return fmt.Errorf("%w: it does not wait for the remote", ErrNotClaimable)
		}
		if err != nil {
			return err
		}
		return s.dispatch(ctx, tx, job{run: run, kind: kindReconcile, epoch: epoch + 1, queue: queueReconcile})
	})
	if err != nil {
		return fmt.Errorf("look at run %s now: %w", run, err)
	}
	return nil
}
