package changes

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
)

const (
	magic    = "harness changes 1\n"
	tagSame  = '='
	tagEnd   = 'E'
	tagFault = '!'
	maxChunk = 64 << 10
	maxPath  = 1 << 16
)

// Encoder writes a change stream.
type Encoder struct {
	w       *bufio.Writer
	entries uint64
	bytes   uint64
	buf     []byte
}

// NewEncoder starts a stream on w.
func NewEncoder(w io.Writer) (*Encoder, error) {
	e := &Encoder{w: bufio.NewWriterSize(w, maxChunk), buf: make([]byte, maxChunk)}
	_, err := e.w.WriteString(magic)
	return e, err
}

// File writes one regular file: its announced size, and everything that content gives. That the two agree is for the decoder to
// see.
func (e *Encoder) File(path string, kind Kind, size int64, content io.Reader) error {
	if kind != File && kind != Exec {
		return fmt.Errorf("changes: kind %q is no regular file", byte(kind))
	}
	if err := e.head(byte(kind), path); err != nil {
		return err
	}
	if err := e.u64(uint64(size)); err != nil { //nolint:gosec // a size from fstat
		return err
	}
	for {
		n, err := io.ReadFull(content, e.buf)
		if n > 0 {
			e.bytes += uint64(n) //nolint:gosec // positive
			if werr := e.str(string(e.buf[:n])); werr != nil {
				return werr
			}
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF { //nolint:errorlint // ReadFull returns exactly these
			return e.u32(0)
		}
		if err != nil {
			return err
		}
	}
}

// Symlink writes one link with its target.
func (e *Encoder) Symlink(path, target string) error {
	if err := e.head(byte(Symlink), path); err != nil {
		return err
	}
	e.bytes += uint64(len(target))
	return e.str(target)
}

// Same writes that path exists and equals what was known of it.
func (e *Encoder) Same(path string) error { return e.head(tagSame, path) }

// Fault ends the stream with a refusal: code says what, subject about which path.
func (e *Encoder) Fault(code, subject string) error {
	if len(subject) > maxPath {
		subject = subject[:maxPath]
	}
	if err := e.w.WriteByte(tagFault); err != nil {
		return err
	}
	if err := e.str(code); err != nil {
		return err
	}
	if err := e.str(subject); err != nil {
		return err
	}
	return e.w.Flush()
}

// End closes the stream with its totals.
func (e *Encoder) End() error {
	if err := e.w.WriteByte(tagEnd); err != nil {
		return err
	}
	if err := e.u64(e.entries); err != nil {
		return err
	}
	if err := e.u64(e.bytes); err != nil {
		return err
	}
	return e.w.Flush()
}

// Flush sends what is buffered, without an end.
func (e *Encoder) Flush() error { return e.w.Flush() }

func (e *Encoder) head(tag byte, path string) error {
	e.entries++
	if err := e.w.WriteByte(tag); err != nil {
		return err
	}
	return e.str(path)
}

func (e *Encoder) str(s string) error {
	if err := e.u32(uint32(len(s))); err != nil { //nolint:gosec // bounded by callers
		return err
	}
	_, err := e.w.WriteString(s)
	return err
}

func (e *Encoder) u32(v uint32) error {
	_, err := e.w.Write(binary.BigEndian.AppendUint32(nil, v))
	return err
}

func (e *Encoder) u64(v uint64) error {
	_, err := e.w.Write(binary.BigEndian.AppendUint64(nil, v))
	return err
}
