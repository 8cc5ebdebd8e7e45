package harness

import (
	"context"
	"errors"

	"github.com/rein-aharness/harness/queue"
)

// logWriter stores a session log, masked and bounded already, in pieces: as it fills, so that it can be followed, and at its end.
type logWriter struct {
	ctx     context.Context //nolint:containedctx // of the session whose log it is
	lease   *queue.Lease
	pending []byte
}

// logPiece is how much is held back before it is stored.
const logPiece = 16 << 10

func newLogWriter(ctx context.Context, lease *queue.Lease) *logWriter {
	return &logWriter{ctx: ctx, lease: lease}
}

// Write implements io.Writer.
func (w *logWriter) Write(p []byte) (int, error) {
	w.pending = append(w.pending, p...)
	if len(w.pending) < logPiece {
		return len(p), nil
	}
	return len(p), w.flush(w.ctx)
}

// Close stores what is left, also when the session's context has ended.
func (w *logWriter) Close() error {
	err := w.flush(context.WithoutCancel(w.ctx))
	if errors.Is(err, queue.ErrLeaseLost) {
		return nil // whoever lost the lease writes nothing any more, not even what the session said
	}
	return err
}

func (w *logWriter) flush(ctx context.Context) error {
	if len(w.pending) == 0 {
		return nil
	}
	err := w.lease.AppendLog(ctx, w.pending)
	w.pending = w.pending[:0]
	return err
}
