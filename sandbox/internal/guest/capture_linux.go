package guest

import (
	"crypto/sha1" //nolint:gosec // git's blob hash
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/rein-aharness/harness/sandbox/internal/changes"
)

// runCapture walks the workspace and writes the change stream to standard output. Its one argument is the bounds; the baseline's
// files come on standard input. What may not be captured ends the stream with a fault, which is an answer: the exit code is 0.
func runCapture(args []string) error {
	if len(args) != 1 {
		return errors.New("capture: takes the bounds and nothing else")
	}
	var bounds changes.Bounds
	if err := json.Unmarshal([]byte(args[0]), &bounds); err != nil {
		return fmt.Errorf("capture: bounds: %w", err)
	}
	known, err := changes.ReadKnown(os.Stdin)
	if err != nil {
		return fmt.Errorf("capture: %w", err)
	}
	return capture(Workspace, bounds, known, os.Stdout)
}

func capture(dir string, bounds changes.Bounds, known map[string]changes.Known, out io.Writer) error {
	if err := bounds.Validate(); err != nil {
		return err
	}
	enc, err := changes.NewEncoder(out)
	if err != nil {
		return err
	}
	root, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return finish(enc, &changes.Fault{Code: changes.FaultUnreadable, Subject: "."})
	}
	w := &walker{enc: enc, bounds: bounds, known: known}
	return finish(enc, w.folder(root, "", 0))
}

// finish ends the stream: with its totals, or with the fault.
func finish(enc *changes.Encoder, err error) error {
	var f *changes.Fault
	if errors.As(err, &f) {
		return enc.Fault(f.Code, f.Subject)
	}
	if err != nil {
		return err
	}
	return enc.End()
}

type walker struct {
	enc     *changes.Encoder
	bounds  changes.Bounds
	known   map[string]changes.Known
	entries int
	bytes   int64
}

// folder walks what fd is open on, and closes fd. Everything is reached by descriptor: no name is resolved twice.
func (w *walker) folder(fd int, prefix string, depth int) (err error) {
	dir := os.NewFile(uintptr(fd), prefix) //nolint:gosec // a descriptor
	defer func() { err = errors.Join(err, dir.Close()) }()
	var names []string
	for {
		some, err := dir.Readdirnames(1024)
		names = append(names, some...)
		if w.entries += len(some); w.entries > w.bounds.Entries {
			return &changes.Fault{Code: changes.FaultEntries, Subject: prefix}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return &changes.Fault{Code: changes.FaultUnreadable, Subject: prefix}
		}
	}
	slices.Sort(names)
	for _, name := range names {
		p := name
		if prefix != "" {
			p = prefix + "/" + name
		}
		if depth+1 > w.bounds.Depth || len(p) > w.bounds.PathBytes {
			return &changes.Fault{Code: changes.FaultDepth, Subject: p}
		}
		if err := w.one(int(dir.Fd()), name, p, depth+1); err != nil { //nolint:gosec // a descriptor
			return err
		}
	}
	return nil
}

func (w *walker) one(dir int, name, p string, depth int) error {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return &changes.Fault{Code: changes.FaultUnreadable, Subject: p}
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return &changes.Fault{Code: changes.FaultUnreadable, Subject: p}
		}
		return w.folder(fd, p, depth)
	case unix.S_IFLNK:
		return w.link(dir, name, p)
	case unix.S_IFREG:
		return w.file(dir, name, p)
	}
	return &changes.Fault{Code: changes.FaultType, Subject: p}
}

func (w *walker) link(dir int, name, p string) error {
	buf := make([]byte, changes.MaxTarget+1)
	n, err := unix.Readlinkat(dir, name, buf)
	if err != nil {
		return &changes.Fault{Code: changes.FaultUnreadable, Subject: p}
	}
	if n > changes.MaxTarget {
		return &changes.Fault{Code: changes.FaultDepth, Subject: p}
	}
	target := string(buf[:n])
	if k, ok := w.known[p]; ok && k.Mode == changes.Symlink.GitMode() && k.Size == int64(n) && k.SHA1 == blobHash([]byte(target)) {
		return w.enc.Same(p)
	}
	if err := w.count(int64(n), p); err != nil {
		return err
	}
	return w.enc.Symlink(p, target)
}

func (w *walker) file(dir int, name, p string) (err error) {
	// Non-blocking, and the type is checked on the descriptor: a FIFO put in the file's place must not hold the walk.
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return &changes.Fault{Code: changes.FaultUnreadable, Subject: p}
	}
	f := os.NewFile(uintptr(fd), p) //nolint:gosec // a descriptor
	defer func() { err = errors.Join(err, f.Close()) }()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &changes.Fault{Code: changes.FaultUnreadable, Subject: p}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return &changes.Fault{Code: changes.FaultType, Subject: p}
	}
	kind := changes.File
	if st.Mode&unix.S_IXUSR != 0 {
		kind = changes.Exec
	}
	if k, ok := w.known[p]; ok && k.Mode == kind.GitMode() && k.Size == st.Size {
		same, err := sameBlob(f, k)
		if err != nil {
			return &changes.Fault{Code: changes.FaultUnreadable, Subject: p}
		}
		if same {
			return w.enc.Same(p)
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return &changes.Fault{Code: changes.FaultUnreadable, Subject: p}
		}
	}
	if st.Size > w.bounds.FileBytes {
		return &changes.Fault{Code: changes.FaultBytes, Subject: p}
	}
	if err := w.count(st.Size, p); err != nil {
		return err
	}
	return w.enc.File(p, kind, st.Size, f)
}

func (w *walker) count(n int64, p string) error {
	if w.bytes += n; w.bytes > w.bounds.Bytes {
		return &changes.Fault{Code: changes.FaultBytes, Subject: p}
	}
	return nil
}

func blobHash(content []byte) string {
	h := sha1.New() //nolint:gosec // git's blob hash
	fmt.Fprintf(h, "blob %d\x00", len(content))
	h.Write(content)
	return hex.EncodeToString(h.Sum(nil))
}

func sameBlob(f *os.File, k changes.Known) (bool, error) {
	h := sha1.New() //nolint:gosec // git's blob hash
	fmt.Fprintf(h, "blob %d\x00", k.Size)
	n, err := io.Copy(h, f)
	if err != nil {
		return false, err
	}
	return n == k.Size && hex.EncodeToString(h.Sum(nil)) == k.SHA1, nil
}
