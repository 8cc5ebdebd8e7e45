package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/pkg/stdcopy"
	"github.com/hashicorp/yamux"

	"github.com/rein-aharness/harness/sandbox/internal/wire"
)

// link is the worker's end of the wire.
type link struct {
	mux  *yamux.Session
	conn *attachment
}

// dial puts the multiplexer onto the connection to a started container. On an error it has closed conn.
func dial(conn *attachment, keepalive time.Duration) (*link, error) {
	mux, err := yamux.Client(conn, wire.MuxConfig(keepalive))
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &link{mux: mux, conn: conn}, nil
}

// lost is closed when the wire is gone.
func (l *link) lost() <-chan struct{} { return l.mux.CloseChan() }

// close ends the wire, and with it the sandbox. The wire may be gone already.
func (l *link) close() {
	_ = l.mux.Close()  // it reports only what ended it
	_ = l.conn.Close() // likewise
}

// explain adds what the init said on its standard error to err.
func (l *link) explain(err error) error {
	if said := l.conn.stderr.String(); said != "" {
		return fmt.Errorf("%w (the init said: %.512q)", err, said)
	}
	return err
}

// stream opens a stream with req. Until release is called the stream ends with ctx, and everything blocked on it returns.
func (l *link) stream(ctx context.Context, req wire.Req) (st *yamux.Stream, release func(), err error) {
	if err := context.Cause(ctx); err != nil {
		return nil, nil, err
	}
	st, err = l.mux.OpenStream()
	if err != nil {
		return nil, nil, fmt.Errorf("open a stream: %w", err)
	}
	stop := context.AfterFunc(ctx, func() {
		_ = st.SetDeadline(time.Now()) // never fails
		_ = st.Close()
	})
	release = func() {
		stop()
		_ = st.Close() // half: the init sees the end
	}
	if err := wire.WriteJSON(st, wire.Request, req); err != nil {
		release()
		return nil, nil, err
	}
	return st, release, nil
}

// call sends req, then data in chunks where it is not nil, and returns the result.
func (l *link) call(ctx context.Context, req wire.Req, data []byte) (wire.Res, error) {
	st, release, err := l.stream(ctx, req)
	if err != nil {
		return wire.Res{}, err
	}
	defer release()
	if data != nil {
		if err := send(st, bytes.NewReader(data)); err != nil {
			return wire.Res{}, cause(ctx, err)
		}
	}
	res, err := receive(wire.NewReader(st), func([]byte) error { return fmt.Errorf("%w: output out of turn", wire.ErrMalformed) })
	return res, cause(ctx, err)
}

// send passes everything of src on as Data frames, and then End.
func send(st io.Writer, src io.Reader) error {
	buf := make([]byte, wire.MaxChunk)
	for {
		n, err := io.ReadFull(src, buf)
		if n > 0 {
			if werr := wire.Write(st, wire.Data, buf[:n]); werr != nil {
				return werr
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return wire.Write(st, wire.End, nil)
		}
		if err != nil {
			return &sourceError{err}
		}
	}
}

// sourceError is a failure to read what was to be sent, as against one to send it.
type sourceError struct{ err error }

func (e *sourceError) Error() string { return "read the input: " + e.err.Error() }
func (e *sourceError) Unwrap() error { return e.err }

// receive gives every Output frame to output until the Result comes.
func receive(in *wire.Reader, output func([]byte) error) (wire.Res, error) {
	for {
		kind, payload, err := in.Next()
		if errors.Is(err, io.EOF) {
			return wire.Res{}, errors.New("the stream ended without a result")
		}
		if err != nil {
			return wire.Res{}, err
		}
		switch kind {
		case wire.Output:
			if err := output(payload); err != nil {
				return wire.Res{}, err
			}
		case wire.Result:
			var res wire.Res
			if err := wire.Decode(payload, &res); err != nil {
				return wire.Res{}, err
			}
			if res.Error != "" {
				return res, fmt.Errorf("the init: %.512q", res.Error)
			}
			return res, nil
		default:
			return wire.Res{}, fmt.Errorf("%w: frame %q out of turn", wire.ErrMalformed, byte(kind))
		}
	}
}

// cause prefers why ctx ended over what its end did to the stream.
func cause(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// attachment is the container's standard streams as one connection: the engine's framing is taken off what comes out.
type attachment struct {
	types.HijackedResponse
	out    *io.PipeReader
	done   chan struct{}
	stderr bounded
	once   sync.Once
}

func attach(h types.HijackedResponse) *attachment {
	pr, pw := io.Pipe()
	a := &attachment{HijackedResponse: h, out: pr, done: make(chan struct{})}
	go func() {
		defer close(a.done)
		_, err := stdcopy.StdCopy(pw, &a.stderr, h.Reader)
		if err == nil {
			err = io.EOF
		}
		pw.CloseWithError(err)
	}()
	return a
}

func (a *attachment) Read(p []byte) (int, error)  { return a.out.Read(p) }
func (a *attachment) Write(p []byte) (int, error) { return a.Conn.Write(p) }

func (a *attachment) Close() error {
	a.once.Do(func() {
		a.HijackedResponse.Close()
		_ = a.out.Close() // never fails
		<-a.done
	})
	return nil
}

// bounded keeps the beginning of what is written to it.
type bounded struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

const boundedSize = 4 << 10

func (b *bounded) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buf.Write(p[:min(len(p), boundedSize-b.buf.Len())])
	return len(p), nil
}

func (b *bounded) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
