package queue

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rein-aharness/harness/evidence"
)

// Intent is the one publication that a run may make. Its pack is stored with it and never built again. (A40, A44, A46)
type Intent struct {
	TransactionID string
	Epoch         int64
	TargetRef     string
	Old           string // of the target; all zeros when it is new
	BaseRef       string
	BaseCommit    string
	Commit        string
	FenceRef      string // empty when fencing is waived, as is FenceValue
	FenceValue    string // what the fence is before the publication
	Pack          []byte
	PackDigest    string
	SavedAt       time.Time // by the database's clock
}

// maxPackBytes bounds what the intent row takes, whatever a deployment allows.
const maxPackBytes = 512 << 20

// SaveIntent stores the intent and all facts recorded so far, before the first byte is sent. It is refused when the run is not
// running, was not started, does not hold the ref lock in this epoch, or the harness is paused. Saving the same intent again
// changes nothing; another is ErrIntentConflict. (A36, A37, A44)
func (l *Lease) SaveIntent(ctx context.Context, in Intent) error {
	if len(in.Pack) == 0 || len(in.Pack) > maxPackBytes {
		return evidence.Fail(evidence.StageAccept, evidence.CodePackTooLarge, fmt.Sprintf("%d bytes", len(in.Pack)), nil)
	}
	in.Epoch = l.run.Epoch
	return l.write(ctx, "intent", func(tx pgx.Tx, h holding) error {
		if err := l.store.checkControl(ctx, tx, true); err != nil {
			return err
		}
		if h.state != evidence.StateRunning || !h.started {
			return fmt.Errorf("%w: the run is %s", ErrNotClaimable, h.state)
		}
		var locked bool
		err := tx.QueryRow(ctx, `
			SELECT EXISTS (SELECT FROM ref_lock WHERE repository = $1 AND target_ref = $2 AND run_id = $3 AND epoch = $4)`,
			l.run.Repository, in.TargetRef, l.run.ID, l.run.Epoch).Scan(&locked)
		if err != nil {
			return err
		}
		if !locked {
			return ErrRefLocked
		}
		tag, err := tx.Exec(ctx, `
			INSERT INTO run_intent (run_id, transaction_id, epoch, target_ref, old_value, base_ref, base_commit, commit_hash,
				fence_ref, fence_value, pack, pack_digest)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT (run_id) DO NOTHING`,
			l.run.ID, in.TransactionID, in.Epoch, in.TargetRef, in.Old, in.BaseRef, in.BaseCommit, in.Commit,
			in.FenceRef, in.FenceValue, in.Pack, in.PackDigest)
		if err != nil || tag.RowsAffected() == 1 {
			return err
		}
		saved, err := readIntent(ctx, tx, l.run.ID)
		if err != nil {
			return err
		}
		if !saved.same(in) {
			return ErrIntentConflict
		}
		return nil
	})
}

func (in Intent) same(other Intent) bool {
	in.SavedAt, other.SavedAt = time.Time{}, time.Time{}
	return reflect.DeepEqual(in, other)
}

// Intent reads the intent of a run; found is false when it has none.
func (s *Store) Intent(ctx context.Context, run string) (in Intent, found bool, err error) {
	err = s.patiently(ctx, func(ctx context.Context) (err error) {
		in, err = readIntent(ctx, s.pool, run)
		return err
	})
	if isNone(err) {
		return Intent{}, false, nil
	}
	if err != nil {
		return Intent{}, false, fmt.Errorf("read the intent of run %s: %w", run, err)
	}
	return in, true, nil
}

func readIntent(ctx context.Context, q interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, run string,
) (Intent, error) {
	var in Intent
	err := q.QueryRow(ctx, `
		SELECT transaction_id, epoch, target_ref, old_value, base_ref, base_commit, commit_hash, fence_ref, fence_value, pack,
			pack_digest, saved_at
		FROM run_intent WHERE run_id = $1`, run).Scan(&in.TransactionID, &in.Epoch, &in.TargetRef, &in.Old, &in.BaseRef,
		&in.BaseCommit, &in.Commit, &in.FenceRef, &in.FenceValue, &in.Pack, &in.PackDigest, &in.SavedAt)
	return in, err
}
