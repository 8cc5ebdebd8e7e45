package sandbox

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/pkg/stdcopy"
	"github.com/hashicorp/yamux"
	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/sandbox/internal/changes"
	"github.com/rein-aharness/harness/sandbox/internal/wire"
)

// containerEnd is the other end of an attached connection, with the engine's framing on what it writes.
type containerEnd struct {
	net.Conn
	stdout io.Writer
}

func (c containerEnd) Write(p []byte) (int, error) { return c.stdout.Write(p) }

// forged returns a Sandbox whose init is a double that answers each stream with script: the fault is a PID 1 that lies.
func forged(t *testing.T, keepalive time.Duration, script func(req wire.Req, st io.ReadWriter)) *Sandbox {
	t.Helper()
	here, there := net.Pipe()
	l, err := dial(attach(types.NewHijackedResponse(here, "")), keepalive)
	require.NoError(t, err)
	t.Cleanup(l.close)
	end := containerEnd{Conn: there, stdout: stdcopy.NewStdWriter(there, stdcopy.Stdout)}
	if script == nil {
		go func() { _, _ = io.Copy(io.Discard, there) }() // hears everything and answers nothing
		return &Sandbox{spec: goodSpec(), wire: l}
	}
	mux, err := yamux.Server(end, wire.MuxConfig(5*time.Second))
	require.NoError(t, err)
	t.Cleanup(func() { _ = mux.Close() })
	go func() {
		for {
			st, err := mux.AcceptStream()
			if err != nil {
				return
			}
			go func() {
				defer st.Close()
				_, payload, err := wire.NewReader(st).Next()
				var req wire.Req
				if err == nil && wire.Decode(payload, &req) == nil {
					script(req, st)
				}
			}()
		}
	}()
	return &Sandbox{spec: goodSpec(), wire: l}
}

func codeOf(t *testing.T, err error) evidence.Code {
	t.Helper()
	require.Error(t, err)
	return evidence.CodeOf(err)
}

// A24, A34
func TestAnInitThatLiesIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer func(st io.Writer)
		code   evidence.Code
	}{
		"unknown frame":      {func(st io.Writer) { _, _ = st.Write([]byte("Z\x00\x00\x00\x00")) }, evidence.CodeStreamMalformed},
		"frame out of turn":  {func(st io.Writer) { _ = wire.Write(st, wire.Kill, nil) }, evidence.CodeStreamMalformed},
		"endless frame":      {func(st io.Writer) { _, _ = st.Write([]byte("R\xff\xff\xff\xff")) }, evidence.CodeStreamMalformed},
		"result with extras": {func(st io.Writer) { _ = wire.Write(st, wire.Result, []byte(`{"accepted":true}`)) }, evidence.CodeStreamMalformed},
		"no result":          {func(io.Writer) {}, evidence.CodeSessionFailed},
		"reported failure":   {func(st io.Writer) { _ = wire.WriteJSON(st, wire.Result, wire.Res{Error: "x"}) }, evidence.CodeSessionFailed},
		"endless output": {func(st io.Writer) {
			for wire.Write(st, wire.Output, make([]byte, 1000)) == nil {
			}
		}, evidence.CodeOutputExceeded},
		"killed for memory": {func(st io.Writer) {
			_ = wire.WriteJSON(st, wire.Result, wire.Res{Signal: "SIGKILL", ExitCode: -1, OOMKills: 1})
		}, evidence.CodeMemoryExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := forged(t, 5*time.Second, func(_ wire.Req, st io.ReadWriter) { c.answer(st) })
			_, err := s.Exec(t.Context(), Command{Argv: []string{"x"}})
			require.Equal(t, c.code, codeOf(t, err), "%v", err)
		})
	}
}

// A34
func TestAForgedChangeStreamIsRefused(t *testing.T) {
	t.Parallel()
	link := func(e *changes.Encoder, path string) { _ = e.Symlink(path, "t") }
	for name, c := range map[string]struct {
		stream func(w io.Writer, e *changes.Encoder)
		code   evidence.Code
	}{
		"garbage": {func(w io.Writer, _ *changes.Encoder) { _, _ = io.WriteString(w, strings.Repeat("x", 100)) }, evidence.CodeStreamMalformed},
		"no end": {func(_ io.Writer, e *changes.Encoder) {
			_ = e.File("a", changes.File, 200000, bytes.NewReader(make([]byte, 200000)))
		}, evidence.CodeStreamMalformed},
		"up":           {func(_ io.Writer, e *changes.Encoder) { link(e, "../a"); _ = e.End() }, evidence.CodeStreamMalformed},
		"out of order": {func(_ io.Writer, e *changes.Encoder) { link(e, "b"); link(e, "a"); _ = e.End() }, evidence.CodeStreamMalformed},
		"unknown same": {func(_ io.Writer, e *changes.Encoder) { _ = e.Same("other"); _ = e.End() }, evidence.CodeStreamMalformed},
		"short": {func(_ io.Writer, e *changes.Encoder) {
			_ = e.File("a", changes.File, 5, strings.NewReader("1234"))
			_ = e.End()
		}, evidence.CodeLengthMismatch},
		"long": {func(_ io.Writer, e *changes.Encoder) {
			_ = e.File("a", changes.File, 5, strings.NewReader("123456"))
			_ = e.End()
		}, evidence.CodeLengthMismatch},
		"deep":  {func(_ io.Writer, e *changes.Encoder) { link(e, strings.Repeat("d/", 10)+"f"); _ = e.End() }, evidence.CodeDepthExceeded},
		"large": {func(_ io.Writer, e *changes.Encoder) { _ = e.File("a", changes.File, 1<<40, strings.NewReader("")) }, evidence.CodeBytesExceeded},
		"many": {func(_ io.Writer, e *changes.Encoder) {
			for i := 'a'; i < 'z'; i++ {
				link(e, string(i))
			}
			_ = e.End()
		}, evidence.CodeEntriesExceeded},
		"fault": {func(_ io.Writer, e *changes.Encoder) { _ = e.Fault("completed", "a") }, evidence.CodeStreamMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := forged(t, 5*time.Second, func(req wire.Req, st io.ReadWriter) {
				if req.Op == wire.OpExec {
					var stream bytes.Buffer
					enc, err := changes.NewEncoder(&stream)
					if err != nil {
						return
					}
					c.stream(&stream, enc)
					_ = enc.Flush()
					for chunk := make([]byte, wire.MaxChunk); stream.Len() > 0; {
						n, _ := stream.Read(chunk)
						_ = wire.Write(st, wire.Output, chunk[:n])
					}
				}
				_ = wire.WriteJSON(st, wire.Result, wire.Res{})
			})
			b := Bounds{Entries: 10, Bytes: 1 << 20, FileBytes: 1 << 20, Depth: 5, PathBytes: 100}
			err := s.Capture(t.Context(), b, map[string]Known{}, func(Entry) error { return nil })
			require.Equal(t, c.code, codeOf(t, err), "%v", err)
		})
	}
}

// A helper that dies in the middle is no short workspace.
func TestACaptureWhoseWalkDiesIsRefused(t *testing.T) {
	t.Parallel()
	for name, res := range map[string]wire.Res{"code": {ExitCode: 70}, "signal": {ExitCode: -1, Signal: "SIGKILL"}} {
		s := forged(t, 5*time.Second, func(req wire.Req, st io.ReadWriter) {
			if req.Op != wire.OpExec {
				_ = wire.WriteJSON(st, wire.Result, wire.Res{})
				return
			}
			var stream bytes.Buffer
			enc, err := changes.NewEncoder(&stream)
			if err == nil && enc.End() == nil {
				_ = wire.Write(st, wire.Output, stream.Bytes())
			}
			_ = wire.WriteJSON(st, wire.Result, res)
		})
		err := s.Capture(t.Context(), Bounds{Entries: 1, Bytes: 1, FileBytes: 1, Depth: 1, PathBytes: 1}, nil, func(Entry) error { return nil })
		require.Equal(t, evidence.CodeCaptureFailed, codeOf(t, err), name)
	}
}

// A25
func TestASilentInitIsALostSandbox(t *testing.T) {
	t.Parallel()
	s := forged(t, 100*time.Millisecond, nil)
	_, err := s.Exec(t.Context(), Command{Argv: []string{"x"}})
	require.Equal(t, evidence.CodeSandboxLost, codeOf(t, err))
}

func TestAWireThatSpeaksAnotherProtocolIsALostSandbox(t *testing.T) {
	t.Parallel()
	here, there := net.Pipe()
	l, err := dial(attach(types.NewHijackedResponse(here, "")), time.Second)
	require.NoError(t, err)
	t.Cleanup(l.close)
	go func() { _, _ = io.Copy(io.Discard, there) }()
	go func() {
		_, _ = stdcopy.NewStdWriter(there, stdcopy.Stderr).Write([]byte("exec format error"))
		_, _ = stdcopy.NewStdWriter(there, stdcopy.Stdout).Write([]byte(strings.Repeat("hello ", 100)))
	}()
	s := &Sandbox{spec: goodSpec(), wire: l}
	err = s.hello(t.Context())
	require.Error(t, err)
	require.ErrorContains(t, s.wire.explain(err), "exec format error")
	<-s.Lost()
}

func TestAnUnreadableInputEndsTheUnpackWithItsReason(t *testing.T) {
	t.Parallel()
	s := forged(t, 5*time.Second, func(_ wire.Req, st io.ReadWriter) {
		in := wire.NewReader(st)
		for {
			if _, _, err := in.Next(); err != nil {
				_ = wire.WriteJSON(st, wire.Result, wire.Res{ExitCode: 70})
				return
			}
		}
	})
	err := s.Unpack(t.Context(), brokenReader{})
	require.ErrorIs(t, err, io.ErrNoProgress)
	require.Equal(t, evidence.CodeSessionStartFailed, evidence.CodeOf(err))
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrNoProgress }

func TestACommandIsValidatedBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	s := &Sandbox{} // no wire: nothing can be sent
	for name, c := range map[string]Command{
		"none": {}, "empty": {Argv: []string{""}}, "NUL": {Argv: []string{"a\x00"}}, "NUL in env": {Argv: []string{"a"}, Env: []string{"A=\x00"}},
		"no value": {Argv: []string{"a"}, Env: []string{"A"}}, "no name": {Argv: []string{"a"}, Env: []string{"=A"}}, "too long": {Argv: []string{strings.Repeat("a", maxArgs)}},
	} {
		_, err := s.Exec(context.Background(), c)
		require.Equal(t, evidence.CodeSessionStartFailed, evidence.CodeOf(err), name)
	}
	for _, name := range []string{"x", "/run/harness", "/run/harness/", "/run/harness/a/b", "/run/harness/../x", "/tmp/x"} {
		require.Error(t, s.PutFile(context.Background(), name, 0o400, nil), name)
	}
	require.Error(t, s.PutFile(context.Background(), "/run/harness/x", 0o4755, nil))
	require.Error(t, s.PutFile(context.Background(), "/run/harness/x", 0o400, make([]byte, 2<<20)))
}
