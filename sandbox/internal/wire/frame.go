package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Kind says what a frame carries. The set is closed.
type Kind byte

// The frame kinds. Request, Data, End and Kill go to the init; Output and Result come from it.
const (
	Request Kind = 'Q' // the one JSON request that opens a stream
	Data    Kind = 'D' // bytes for the command's standard input, or of a file
	End     Kind = 'E' // no more Data
	Kill    Kind = 'K' // end the command now
	Output  Kind = 'O' // bytes the command wrote
	Result  Kind = 'R' // the one JSON result that closes a stream
)

// Bounds of a frame's payload, in bytes.
const (
	MaxChunk = 64 << 10 // Data and Output
	MaxJSON  = 1 << 20  // Request and Result
)

const headerSize = 5

// ErrMalformed is what a frame that the protocol does not allow leads to.
var ErrMalformed = errors.New("malformed frame")

func limit(k Kind) (int, bool) {
	switch k {
	case Request, Result:
		return MaxJSON, true
	case Data, Output:
		return MaxChunk, true
	case End, Kill:
		return 0, true
	}
	return 0, false
}

// Write sends one frame with a single call of w.Write.
func Write(w io.Writer, k Kind, payload []byte) error {
	if most, ok := limit(k); !ok || len(payload) > most {
		return fmt.Errorf("%w: cannot send kind %q with %d bytes", ErrMalformed, byte(k), len(payload))
	}
	frame := make([]byte, headerSize+len(payload))
	frame[0] = byte(k)
	binary.BigEndian.PutUint32(frame[1:], uint32(len(payload))) //nolint:gosec // bounded by limit
	copy(frame[headerSize:], payload)
	if _, err := w.Write(frame); err != nil {
		return fmt.Errorf("send frame %q: %w", byte(k), err)
	}
	return nil
}

// WriteJSON sends v as the payload of one frame.
func WriteJSON(w io.Writer, k Kind, v any) error {
	payload, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode frame %q: %w", byte(k), err)
	}
	return Write(w, k, payload)
}

// Reader takes frames off a stream.
type Reader struct {
	src io.Reader
	buf []byte
}

// NewReader returns a Reader of src. It reads no further than the frame it returns.
func NewReader(src io.Reader) *Reader { return &Reader{src: src} }

// Next returns the next frame. The payload is valid until the following call. The error is io.EOF only when the stream ended
// between two frames.
func (r *Reader) Next() (Kind, []byte, error) {
	var head [headerSize]byte
	if _, err := io.ReadFull(r.src, head[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return 0, nil, fmt.Errorf("%w: cut short in a header", ErrMalformed)
		}
		return 0, nil, err
	}
	kind, size := Kind(head[0]), binary.BigEndian.Uint32(head[1:])
	most, ok := limit(kind)
	if !ok {
		return 0, nil, fmt.Errorf("%w: unknown kind %#02x", ErrMalformed, head[0])
	}
	if uint64(size) > uint64(most) {
		return 0, nil, fmt.Errorf("%w: kind %q announces %d bytes, %d allowed", ErrMalformed, head[0], size, most)
	}
	if cap(r.buf) < int(size) {
		r.buf = make([]byte, size)
	}
	payload := r.buf[:size]
	if _, err := io.ReadFull(r.src, payload); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return 0, nil, fmt.Errorf("%w: cut short in a payload", ErrMalformed)
		}
		return 0, nil, err
	}
	return kind, payload, nil
}

// Decode reads the JSON payload of a Request or Result strictly: unknown fields and trailing data are refused.
func Decode(payload []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(payload))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: trailing data", ErrMalformed)
	}
	return nil
}
