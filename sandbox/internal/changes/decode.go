package changes

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
)

// What a stream can be refused for. ErrMalformed is for what no encoder writes; the others name a bound or a size.
var (
	ErrMalformed = errors.New("malformed change stream")
	ErrLength    = errors.New("length differs from the announced size")
	ErrEntries   = errors.New("too many entries")
	ErrBytes     = errors.New("too many bytes")
	ErrDepth     = errors.New("path too deep or too long")
)

// Fault is a refusal that the walk itself reports.
type Fault struct{ Code, Subject string }

func (f *Fault) Error() string { return fmt.Sprintf("walk: %s %q", f.Code, f.Subject) }

// Codes that a Fault may carry.
const (
	FaultType       = "file_type_refused"
	FaultUnreadable = "file_unreadable"
	FaultEntries    = "entries_exceeded"
	FaultBytes      = "bytes_exceeded"
	FaultDepth      = "depth_exceeded"
)

// At is an error about one path.
type At struct {
	Path string
	Err  error
}

func (a *At) Error() string { return fmt.Sprintf("%q: %v", a.Path, a.Err) }

// Unwrap returns what is wrong about the path.
func (a *At) Unwrap() error { return a.Err }

// Entry is one file or link that exists in the workspace.
type Entry struct {
	Path    string    // raw bytes, relative, no ".", ".." or empty segment
	Kind    Kind      // 0 when Same
	Size    int64     // logical size in bytes
	Target  string    // of a Symlink
	Content io.Reader // of a File or Exec; valid until visit returns, and read to its end by Decode if visit did not
	Same    bool      // equal to what was known under this path
}

// Decode reads one whole stream, calls visit for each entry in order, and returns an error unless the stream ended as it should,
// with nothing after it. known tells which paths may be Same.
func Decode(src io.Reader, b Bounds, known func(path string) bool, visit func(Entry) error) error {
	if err := b.Validate(); err != nil {
		return err
	}
	d := &decoder{r: bufio.NewReaderSize(src, maxChunk), b: b, known: known}
	head := make([]byte, len(magic))
	if err := d.full(head); err != nil {
		return err
	}
	if string(head) != magic {
		return fmt.Errorf("%w: wrong beginning", ErrMalformed)
	}
	for {
		more, err := d.next(visit)
		if err != nil {
			return err
		}
		if !more {
			break
		}
	}
	if _, err := d.r.ReadByte(); !errors.Is(err, io.EOF) {
		if err != nil {
			return err
		}
		return fmt.Errorf("%w: data after the end", ErrMalformed)
	}
	return nil
}

type decoder struct {
	r       *bufio.Reader
	b       Bounds
	known   func(string) bool
	entries int
	bytes   int64
	last    string
}

func (d *decoder) next(visit func(Entry) error) (bool, error) {
	tag, err := d.tag()
	if err != nil {
		return false, err
	}
	switch tag {
	case tagEnd:
		return false, d.end()
	case tagFault:
		return false, d.fault()
	case tagSame, byte(File), byte(Exec), byte(Symlink):
	default:
		return false, fmt.Errorf("%w: unknown tag %#02x", ErrMalformed, tag)
	}
	p, err := d.path()
	if err != nil {
		return false, err
	}
	if err := d.body(tag, p, visit); err != nil {
		return false, &At{Path: p, Err: err}
	}
	return true, nil
}

func (d *decoder) body(tag byte, p string, visit func(Entry) error) error {
	switch tag {
	case tagSame:
		if !d.known(p) {
			return fmt.Errorf("%w: called the same, but nothing was known of it", ErrMalformed)
		}
		return visit(Entry{Path: p, Same: true})
	case byte(Symlink):
		target, err := d.str(MaxTarget)
		if err != nil {
			return err
		}
		if target == "" || strings.ContainsRune(target, 0) {
			return fmt.Errorf("%w: link target is empty or holds a NUL", ErrMalformed)
		}
		if err := d.add(int64(len(target))); err != nil {
			return err
		}
		return visit(Entry{Path: p, Kind: Symlink, Size: int64(len(target)), Target: target})
	}
	size, err := d.u64()
	if err != nil {
		return err
	}
	if size > uint64(d.b.FileBytes) { //nolint:gosec // positive
		return fmt.Errorf("%w: %d in one file", ErrBytes, size)
	}
	if err := d.add(int64(size)); err != nil { //nolint:gosec // bounded above
		return err
	}
	c := &content{d: d, left: int64(size)}                                                        //nolint:gosec // bounded above
	if err := visit(Entry{Path: p, Kind: Kind(tag), Size: int64(size), Content: c}); err != nil { //nolint:gosec // bounded above
		return err
	}
	_, err = io.Copy(io.Discard, c)
	return err
}

func (d *decoder) add(n int64) error {
	if d.bytes += n; d.bytes > d.b.Bytes {
		return fmt.Errorf("%w: more than %d in total", ErrBytes, d.b.Bytes)
	}
	return nil
}

func (d *decoder) end() error {
	entries, err := d.u64()
	if err != nil {
		return err
	}
	bytes, err := d.u64()
	if err != nil {
		return err
	}
	if entries != uint64(d.entries) || bytes != uint64(d.bytes) { //nolint:gosec // positive
		return fmt.Errorf("%w: totals differ", ErrMalformed)
	}
	return nil
}

func (d *decoder) fault() error {
	code, err := d.str(64)
	if err != nil {
		return err
	}
	subject, err := d.str(maxPath)
	if err != nil {
		return err
	}
	switch code {
	case FaultType, FaultUnreadable, FaultEntries, FaultBytes, FaultDepth:
		return &Fault{Code: code, Subject: subject}
	}
	return fmt.Errorf("%w: unknown fault", ErrMalformed)
}

// path reads an entry's path and checks its form, its bounds and its order: strictly after the one before, and not below it.
func (d *decoder) path() (string, error) {
	if d.entries++; d.entries > d.b.Entries {
		return "", fmt.Errorf("%w: more than %d", ErrEntries, d.b.Entries)
	}
	size, err := d.u32()
	if err != nil {
		return "", err
	}
	if size > maxPath || int(size) > d.b.PathBytes {
		return "", fmt.Errorf("%w: %d bytes", ErrDepth, size)
	}
	raw := make([]byte, size)
	if err := d.full(raw); err != nil {
		return "", err
	}
	p := string(raw)
	if p == "" || p == "." || p[0] == '/' || path.Clean(p) != p || p == ".." || strings.HasPrefix(p, "../") || strings.ContainsRune(p, 0) {
		return "", &At{Path: p, Err: fmt.Errorf("%w: not a clean relative path", ErrMalformed)}
	}
	if strings.Count(p, "/")+1 > d.b.Depth {
		return "", &At{Path: p, Err: ErrDepth}
	}
	if d.last != "" && (compare(d.last, p) >= 0 || strings.HasPrefix(p, d.last+"/")) {
		return "", &At{Path: p, Err: fmt.Errorf("%w: out of order", ErrMalformed)}
	}
	d.last = p
	return p, nil
}

// content is one file's chunks, and nothing beyond the announced size.
type content struct {
	d     *decoder
	left  int64 // of the announced size
	chunk int   // of the current chunk
	done  bool
}

func (c *content) Read(p []byte) (int, error) {
	for c.chunk == 0 {
		if c.done {
			return 0, io.EOF
		}
		n, err := c.d.u32()
		if err != nil {
			return 0, err
		}
		switch {
		case n == 0 && c.left > 0:
			return 0, fmt.Errorf("%w: %d bytes are missing", ErrLength, c.left)
		case n == 0:
			c.done = true
		case n > maxChunk:
			return 0, fmt.Errorf("%w: chunk of %d bytes", ErrMalformed, n)
		case int64(n) > c.left:
			return 0, fmt.Errorf("%w: more than announced", ErrLength)
		default:
			c.chunk = int(n)
		}
	}
	if len(p) == 0 {
		return 0, nil
	}
	n, err := c.d.r.Read(p[:min(len(p), c.chunk)])
	c.chunk -= n
	c.left -= int64(n)
	return n, cut(err)
}

func (d *decoder) tag() (byte, error) {
	b, err := d.r.ReadByte()
	return b, cut(err)
}

func (d *decoder) full(p []byte) error {
	_, err := io.ReadFull(d.r, p)
	return cut(err)
}

func (d *decoder) str(most uint32) (string, error) {
	n, err := d.u32()
	if err != nil {
		return "", err
	}
	if n > most {
		return "", fmt.Errorf("%w: %d bytes where %d are allowed", ErrMalformed, n, most)
	}
	b := make([]byte, n)
	if err := d.full(b); err != nil {
		return "", err
	}
	return string(b), nil
}

func (d *decoder) u32() (uint32, error) {
	var b [4]byte
	if err := d.full(b[:]); err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint32(b[:]), nil
}

func (d *decoder) u64() (uint64, error) {
	var b [8]byte
	if err := d.full(b[:]); err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint64(b[:]), nil
}

// cut turns an early end into a malformed stream.
func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: cut short", ErrMalformed)
	}
	return err
}
