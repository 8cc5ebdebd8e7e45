package queue

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
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
	AdoptedBy                                 string
	AdoptedAt                                 *time.Time
}

// Replaced reports whether the database is another one than was last adopted: restored from a backup, or a replica that took over.
// Either may have lost leases that were given out. (A51)
func (c Control) Replaced() bool {
	return c.SystemIdentifier != c.CurrentSystemIdentifier || c.Timeline != c.CurrentTimeline
}

// Control reads it.
func (s *Store) Control(ctx context.Context) (Control, error) {
	var c Control
	err := s.pool.QueryRow(ctx, `
		SELECT paused, paused_by, paused_reason, paused_at, control.system_identifier, s.system_identifier::text, timeline,
			current_timeline(), adopted_by, adopted_at
		FROM control, pg_control_system() s`).Scan(&c.Paused, &c.PausedBy, &c.PausedReason, &c.PausedAt, &c.SystemIdentifier,
		&c.CurrentSystemIdentifier, &c.Timeline, &c.CurrentTimeline, &c.AdoptedBy, &c.AdoptedAt)
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
	var lsn string
	err := tx.QueryRow(ctx, `
		SELECT paused, system_identifier = (SELECT system_identifier::text FROM pg_control_system())
			AND timeline = current_timeline(), pg_current_wal_insert_lsn()::text
		FROM control FOR SHARE`).Scan(&paused, &same, &lsn)
	if err != nil {
		return err
	}
	behind, err := s.wentBack(lsn)
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

// wentBack reports whether the database's log is shorter than this process has seen it: it was set back to a snapshot, which changes
// neither identifier nor timeline.
func (s *Store) wentBack(lsn string) (bool, error) {
	high, low, ok := strings.Cut(lsn, "/")
	h, errHigh := strconv.ParseUint(high, 16, 32)
	w, errLow := strconv.ParseUint(low, 16, 32)
	if !ok || errHigh != nil || errLow != nil {
		return false, fmt.Errorf("the database's log position %q is not one", lsn)
	}
	now := h<<32 | w
	for {
		seen := s.seenLSN.Load()
		if now < seen {
			// Two transactions of this process may learn their positions in one order and come here in the other; a snapshot
			// is set back by more than what is written meanwhile.
			return seen-now > lsnSlack, nil
		}
		if s.seenLSN.CompareAndSwap(seen, now) {
			return false, nil
		}
	}
}

// lsnSlack is how many bytes of log may be written between two looks that overtake each other.
const lsnSlack = 256 << 20

// CheckNow makes a run that waits for the remote due at once. ErrNotClaimable when it does not wait.
func (s *Store) CheckNow(ctx context.Context, run string) error {
	return s.transact(ctx, func(tx pgx.Tx) error {
		var epoch int64
		err := tx.QueryRow(ctx, `
			UPDATE ops_run SET next_check_at = clock_timestamp()
			WHERE id = $1 AND state = 'waiting_external' RETURNING lease_epoch`, run).Scan(&epoch)
		if isNone(err) {
			return fmt.Errorf("run %s: %w: it does not wait for the remote", run, ErrNotClaimable)
		}
		if err != nil {
			return err
		}
		return nil
	})
}
