package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// LogChunk is a piece of a session log, as the worker masked and bounded it.
type LogChunk struct {
	Epoch     int64
	Seq       int // from 1 in each epoch
	Bytes     []byte
	WrittenAt time.Time
}

// maxChunkBytes bounds one row of the log.
const maxChunkBytes = 1 << 20

// AppendLog adds to the session log of this epoch. The data is masked already; a long piece becomes several chunks.
func (l *Lease) AppendLog(ctx context.Context, data []byte) error {
	for len(data) > 0 {
		piece := data[:min(len(data), maxChunkBytes)]
		err := l.write(ctx, "session log", func(tx pgx.Tx, _ holding) error {
			_, err := tx.Exec(ctx, `
				INSERT INTO session_log (run_id, epoch, seq, bytes)
				SELECT $1, $2, coalesce(max(seq), 0) + 1, $3 FROM session_log WHERE run_id = $1 AND epoch = $2`,
				l.run.ID, l.run.Epoch, piece)
			return err
		})
		if err != nil {
			return err
		}
		data = data[len(piece):]
	}
	return nil
}

// SessionLog reads the chunks of a run after a place, in order; the zero values of epoch and seq mean the beginning. To follow a
// log, ask again from the last chunk.
func (s *Store) SessionLog(ctx context.Context, run string, epoch int64, seq int) ([]LogChunk, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT epoch, seq, bytes, written_at FROM session_log
		WHERE run_id = $1 AND (epoch, seq) > ($2, $3) ORDER BY epoch, seq LIMIT 100`, run, epoch, seq)
	if err != nil {
		return nil, fmt.Errorf("read the session log of run %s: %w", run, err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[LogChunk])
}

// PruneLogs deletes session logs that are older than keep, and returns how many chunks went.
func (s *Store) PruneLogs(ctx context.Context, keep time.Duration) (int64, error) {
	tag, err := s.pool.Exec(ctx, `DELETE FROM session_log WHERE written_at < clock_timestamp() - $1 * interval '1 second'`,
		int64(keep.Seconds()))
	if err != nil {
		return 0, fmt.Errorf("prune session logs: %w", err)
	}
	return tag.RowsAffected(), nil
}
