package wire_test

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/sandbox/internal/wire"
)

func TestFramesComeOutAsTheyWentIn(t *testing.T) {
	t.Parallel()
	var buf bytes.Buffer
	require.NoError(t, wire.WriteJSON(&buf, wire.Request, wire.Req{Op: wire.OpHello}))
	require.NoError(t, wire.Write(&buf, wire.Output, bytes.Repeat([]byte("x"), wire.MaxChunk)))
	require.NoError(t, wire.Write(&buf, wire.End, nil))
	r := wire.NewReader(&buf)
	kind, payload, err := r.Next()
	require.NoError(t, err)
	require.Equal(t, wire.Request, kind)
	var req wire.Req
	require.NoError(t, wire.Decode(payload, &req))
	require.Equal(t, wire.OpHello, req.Op)
	kind, payload, err = r.Next()
	require.NoError(t, err)
	require.Equal(t, wire.Output, kind)
	require.Len(t, payload, wire.MaxChunk)
	kind, _, err = r.Next()
	require.NoError(t, err)
	require.Equal(t, wire.End, kind)
	_, _, err = r.Next()
	require.Equal(t, io.EOF, err)
}

func TestAFrameOutsideTheProtocolIsRefused(t *testing.T) {
	t.Parallel()
	for name, frame := range map[string]string{
		"unknown kind":   "Z\x00\x00\x00\x00",
		"chunk too long": "O\x00\x01\x00\x01",
		"endless":        "R\xff\xff\xff\xff",
		"end with data":  "E\x00\x00\x00\x01x",
		"cut header":     "O\x00",
		"cut payload":    "O\x00\x00\x00\x05ab",
	} {
		_, _, err := wire.NewReader(strings.NewReader(frame)).Next()
		require.ErrorIs(t, err, wire.ErrMalformed, name)
	}
	require.ErrorIs(t, wire.Write(io.Discard, wire.Output, make([]byte, wire.MaxChunk+1)), wire.ErrMalformed)
	require.ErrorIs(t, wire.Write(io.Discard, 'Z', nil), wire.ErrMalformed)
	for _, text := range []string{`{"left":1}{}`, `{"unknown":1}`, `[]`, ``, `{"left":"x"}`} {
		require.ErrorIs(t, wire.Decode([]byte(text), &wire.Res{}), wire.ErrMalformed, text)
	}
}

func FuzzReader(f *testing.F) {
	var buf bytes.Buffer
	_ = wire.WriteJSON(&buf, wire.Result, wire.Res{ExitCode: 1, Signal: "SIGKILL"})
	_ = wire.Write(&buf, wire.Output, []byte("output"))
	f.Add(buf.Bytes())
	f.Add([]byte("Q\x00\x00\x00\x02{}E\x00\x00\x00\x00K\x00\x00\x00\x00"))
	f.Add([]byte("O\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		var again bytes.Buffer
		r := wire.NewReader(bytes.NewReader(stream))
		for {
			kind, payload, err := r.Next()
			if err != nil {
				break
			}
			if kind == wire.Result {
				var res wire.Res
				_ = wire.Decode(payload, &res)
			}
			require.NoError(t, wire.Write(&again, kind, payload))
		}
		require.True(t, bytes.HasPrefix(stream, again.Bytes()))
	})
}
