package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/rein-aharness/harness/rein/credential"
)

var (
	_ credential.Ledger = (*Lease)(nil)
	_ credential.Ledger = (*Store)(nil)
)

// RecordToken implements credential.Ledger: the accessor is stored under the lease before the token's first use. (A30)
func (l *Lease) RecordToken(ctx context.Context, token credential.Token) error {
	if token.Run != l.run.ID || token.Epoch != l.run.Epoch {
		return errors.New("record a token: it belongs to another lease")
	}
	return l.write(ctx, "token", func(tx pgx.Tx, _ holding) error { return insertToken(ctx, tx, token) })
}

// TokenRevoked implements credential.Ledger. It works after the lease is lost, since it takes nothing from anyone.
func (l *Lease) TokenRevoked(ctx context.Context, accessor string) error {
	return l.store.TokenRevoked(ctx, accessor)
}

// RecordToken implements credential.Ledger for tokens of no run: those of readiness checks.
func (s *Store) RecordToken(ctx context.Context, token credential.Token) error {
	if token.Purpose != credential.PurposeCheck {
		return errors.New("record a token: a run's token is recorded under its lease")
	}
	return s.transact(ctx, func(tx pgx.Tx) error { return insertToken(ctx, tx, token) })
}

func insertToken(ctx context.Context, tx pgx.Tx, token credential.Token) error {
	run := token.Run
	if token.Purpose == credential.PurposeCheck {
		run = ""
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO run_token (accessor, run_id, epoch, purpose, expires_at) VALUES ($1, nullif($2, ''), $3, $4, $5)
		ON CONFLICT (accessor) DO NOTHING`, token.Accessor, run, token.Epoch, token.Purpose, token.ExpiresAt)
	return err
}

// TokenRevoked implements credential.Ledger: Vault no longer knows the accessor.
func (s *Store) TokenRevoked(ctx context.Context, accessor string) error {
	err := s.patiently(ctx, func(ctx context.Context) error {
		_, err := s.pool.Exec(ctx, `UPDATE run_token SET revoked_at = coalesce(revoked_at, clock_timestamp()) WHERE accessor = $1`, accessor)
		return err
	})
	if err != nil {
		return fmt.Errorf("note a revoked token: %w", err)
	}
	return nil
}

// OrphanedTokens lists tokens that were not revoked and whose holder can no longer do it: another epoch has the run, the lease has
// expired or the run has ended; of a readiness check, when it has had its time. At most limit.
func (s *Store) OrphanedTokens(ctx context.Context, limit int) ([]credential.Token, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT t.accessor, coalesce(t.run_id, ''), t.epoch, t.purpose, t.expires_at
		FROM run_token t LEFT JOIN ops_run r ON r.id = t.run_id
		WHERE t.revoked_at IS NULL AND CASE WHEN r.id IS NULL THEN t.recorded_at < clock_timestamp() - interval '10 minutes'
			ELSE r.lease_epoch <> t.epoch OR r.lease_expires_at IS NULL OR r.lease_expires_at <= clock_timestamp() END
		ORDER BY t.expires_at LIMIT $1`, limit)
	if err != nil {
		return nil, fmt.Errorf("list orphaned tokens: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[credential.Token])
}

// Holds reports whether an epoch's lease of a run is alive. The janitor asks before it removes a sandbox.
func (s *Store) Holds(ctx context.Context, run string, epoch int64) (bool, error) {
	var holds bool
	err := s.pool.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM ops_run WHERE id = $1 AND lease_epoch = $2 AND lease_expires_at > clock_timestamp())`,
		run, epoch).Scan(&holds)
	if err != nil {
		return false, fmt.Errorf("look at the lease of run %s: %w", run, err)
	}
	return holds, nil
}
