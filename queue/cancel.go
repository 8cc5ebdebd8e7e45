package queue

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/rein-aharness/harness/evidence"
)

// Cancel ends a run by taking the next epoch: whoever holds the lease is refused from now on, and a reconciler settles the run
// through its fence and closes it. What is unknown stays unknown: a run that waits for the remote goes on waiting, and is looked at
// at once. Cancelling twice changes nothing. ErrFinal when the run is final, ErrNotFound when there is none. (B34)
func (s *Store) Cancel(ctx context.Context, run, by, reason string) error {
	err := s.transact(ctx, func(tx pgx.Tx) error {
		var r Run
		var held bool
		err := tx.QueryRow(ctx, `
			SELECT state, lease_epoch, cancel_requested_at, coalesce(lease_expires_at > clock_timestamp(), false)
			FROM ops_run WHERE id = $1 FOR UPDATE`, run).Scan(&r.State, &r.Epoch, &r.CancelRequestedAt, &held)
		switch {
		case isNone(err):
			return fmt.Errorf("%w: %s", ErrNotFound, run)
		case err != nil:
			return err
		case r.State.Final():
			return ErrFinal
		case r.CancelRequestedAt != nil:
			return nil
		}
		const note = `cancel_requested_at = clock_timestamp(), cancel_by = $2, cancel_reason = $3`
		by, reason := evidence.Clean(by, 128), evidence.Clean(reason, 256)
		if r.State == evidence.StateWaitingExternal {
			if _, err := tx.Exec(ctx, `UPDATE ops_run SET next_check_at = clock_timestamp(), `+note+` WHERE id = $1`, run, by, reason); err != nil {
				return err
			}
			if held {
				return nil
			}
			return s.dispatch(ctx, tx, job{run: run, kind: kindReconcile, epoch: r.Epoch + 1, queue: queueReconcile})
		}
		_, err = tx.Exec(ctx, `
			UPDATE ops_run SET state = 'cancel_requested', lease_epoch = lease_epoch + 1, lease_owner = NULL, lease_worker = NULL,
				lease_engine = NULL, lease_expires_at = NULL, `+note+`
			WHERE id = $1`, run, by, reason)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE ref_lock SET epoch = $2 WHERE run_id = $1`, run, r.Epoch+1); err != nil {
			return err
		}
		return s.dispatch(ctx, tx, job{run: run, kind: kindReconcile, epoch: r.Epoch + 2, queue: queueReconcile})
	})
	if err != nil {
		return fmt.Errorf("cancel run %s: %w", run, err)
	}
	return nil
}

// Successor is the request of a further attempt: the same change under the same operation key, on a trigger key that follows from
// the run, so that asking twice gives one successor. It is unattended. Emit decides whether the run permits it. (A46, A47)
func (r Run) Successor() (Request, error) {
	c, err := r.Contract()
	if err != nil {
		return Request{}, err
	}
	next := c.Request
	next.TriggerKey, next.OperationKey, next.Supersedes = "retry:"+r.ID, r.OperationKey, r.ID
	next.Attended, next.Operator = false, ""
	return next, nil
}
