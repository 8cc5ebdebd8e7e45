package repotx

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/rein-aharness/harness/evidence"
)

// Limits bound one run's change. Zero fields take defaults.
type Limits struct {
	// Files is the most files added, modified or deleted. Default 10,000.
	Files int
	// Bytes is the most new content in all. Default 256 MiB.
	Bytes int64
	// FileBytes is the most new content of one file. Default 64 MiB.
	FileBytes int64
}

func (l Limits) withDefaults() Limits {
	if l.Files == 0 {
		l.Files = 10_000
	}
	if l.Bytes == 0 {
		l.Bytes = 256 << 20
	}
	if l.FileBytes == 0 {
		l.FileBytes = 64 << 20
	}
	return l
}

// ChangeKind says what happened to a path. A rename is a deletion and an addition; nothing is guessed. (CASES 25)
type ChangeKind string

// The kinds of change.
const (
	Added    ChangeKind = "added"
	Modified ChangeKind = "modified"
	Deleted  ChangeKind = "deleted"
)

// Change is one path that differs from the baseline. The side that does not exist has mode 0 and an empty hash.
type Change struct {
	Path             string
	Kind             ChangeKind
	OldMode, NewMode uint32
	OldHash, NewHash string
	Size             int64

	offset int64 // of the content in the spool
}

// ChangeSet is the difference between the baseline and what the session left, sorted by path.
type ChangeSet struct {
	Changes []Change
	// Ignored counts untracked files that the baseline's .gitignore files ignore; they are not part of the change.
	Ignored int
	// Bytes is the new content in all.
	Bytes int64

	spool *os.File
}

// Empty reports whether nothing changed.
func (cs ChangeSet) Empty() bool { return len(cs.Changes) == 0 }

// Count gives the number of changes of a kind.
func (cs ChangeSet) Count(kind ChangeKind) int {
	n := 0
	for _, c := range cs.Changes {
		if c.Kind == kind {
			n++
		}
	}
	return n
}

// content reads a change's new content.
func (cs ChangeSet) content(c Change) io.Reader {
	return io.NewSectionReader(cs.spool, c.offset, c.Size)
}

// Close frees the content. Call it once, when the commit is built or the change refused.
func (cs ChangeSet) Close() error { return cs.spool.Close() }

// Collector takes in what a session left, file after file, as data: new content goes to one file without a name that no
// other process can open, never to a folder that a program could work in. Not safe for concurrent use.
type Collector struct {
	baseline *Baseline
	limits   Limits
	seen     map[string]bool
	set      ChangeSet
}

// NewCollector starts a collection against a baseline. Finish or Discard ends it.
func NewCollector(b *Baseline, limits Limits) (*Collector, error) {
	spool, err := os.CreateTemp(filepath.Dir(b.entry.dir), "spool-")
	if err != nil {
		return nil, evidence.Fail(evidence.StageCapture, evidence.CodeDiskExceeded, "spool", err)
	}
	if err := os.Remove(spool.Name()); err != nil {
		return nil, errors.Join(evidence.Fail(evidence.StageCapture, evidence.CodeDiskExceeded, "spool", err), spool.Close())
	}
	return &Collector{baseline: b, limits: limits.withDefaults(), seen: map[string]bool{}, set: ChangeSet{spool: spool}}, nil
}

// Discard gives up a collection that is not finished.
func (c *Collector) Discard() error { return c.set.spool.Close() }

func capture(code evidence.Code, subject string, err error) error {
	return evidence.Fail(evidence.StageCapture, code, subject, err)
}

// Same says that a file of the baseline is unchanged. A path that the baseline lacks is CodeStreamMalformed.
func (c *Collector) Same(path string) error {
	if _, ok := c.baseline.files[path]; !ok {
		return capture(evidence.CodeStreamMalformed, path, errors.New("called unchanged, but the baseline lacks it"))
	}
	return c.see(path)
}

func (c *Collector) see(path string) error {
	if len(path) > maxPathBytes {
		return capture(evidence.CodePathInvalid, path[:maxComponentBytes], fmt.Errorf("longer than %d bytes", maxPathBytes))
	}
	if c.seen[path] {
		return capture(evidence.CodePathCollision, path, errors.New("named twice"))
	}
	c.seen[path] = true
	return nil
}

// Add takes a file or link with its whole content, which for a link is the target. Content that is shorter or longer than
// size is CodeLengthMismatch.
func (c *Collector) Add(path string, mode uint32, size int64, content io.Reader) error {
	if err := c.see(path); err != nil {
		return err
	}
	if mode != ModeFile && mode != ModeExec && mode != ModeSymlink {
		return capture(evidence.CodeModeRefused, path, fmt.Errorf("mode %o", mode))
	}
	if size < 0 {
		return capture(evidence.CodeLengthMismatch, path, errors.New("negative size"))
	}
	old, tracked := c.baseline.files[path]
	if !tracked && c.baseline.Ignored(path) {
		c.set.Ignored++
		return drain(path, size, content)
	}
	if size > c.limits.FileBytes || size > c.limits.Bytes-c.set.Bytes {
		return capture(evidence.CodeBytesExceeded, path, fmt.Errorf("%d bytes more", size))
	}
	hash, err := c.spool(path, size, content)
	if err != nil {
		return err
	}
	change := Change{Path: path, Kind: Added, NewMode: mode, NewHash: hash, Size: size, offset: c.set.Bytes}
	if tracked {
		if old.SHA1 == hash && old.Mode == mode {
			return nil
		}
		change.Kind, change.OldMode, change.OldHash = Modified, old.Mode, old.SHA1
	}
	c.set.Bytes += size
	return c.record(change)
}

func (c *Collector) record(change Change) error {
	if len(c.set.Changes) >= c.limits.Files {
		return capture(evidence.CodeEntriesExceeded, change.Path, fmt.Errorf("more than %d changed files", c.limits.Files))
	}
	c.set.Changes = append(c.set.Changes, change)
	return nil
}

// spool writes the content behind what is kept so far, and returns its blob hash. The hash resists made collisions.
func (c *Collector) spool(path string, size int64, content io.Reader) (string, error) {
	h := plumbing.NewHasher(plumbing.BlobObject, size)
	out := io.MultiWriter(h, io.NewOffsetWriter(c.set.spool, c.set.Bytes))
	n, err := io.Copy(out, io.LimitReader(content, size))
	if diskFull(err) {
		return "", capture(evidence.CodeDiskExceeded, "spool", err)
	}
	if err != nil {
		return "", capture(evidence.CodeCaptureFailed, path, err)
	}
	return h.Sum().String(), exactly(path, size, n, content)
}

func drain(path string, size int64, content io.Reader) error {
	n, err := io.Copy(io.Discard, io.LimitReader(content, size))
	if err != nil {
		return capture(evidence.CodeCaptureFailed, path, err)
	}
	return exactly(path, size, n, content)
}

// exactly refuses content that is shorter than announced, or goes on.
func exactly(path string, size, n int64, rest io.Reader) error {
	if n != size {
		return capture(evidence.CodeLengthMismatch, path, fmt.Errorf("%d bytes of %d", n, size))
	}
	more, err := rest.Read(make([]byte, 1))
	if more > 0 {
		return capture(evidence.CodeLengthMismatch, path, fmt.Errorf("more than %d bytes", size))
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return capture(evidence.CodeCaptureFailed, path, err)
	}
	return nil
}

// Finish closes the collection: a file of the baseline that was not seen is deleted.
func (c *Collector) Finish() (ChangeSet, error) {
	for _, path := range c.baseline.paths {
		if c.seen[path] {
			continue
		}
		old := c.baseline.files[path]
		if err := c.record(Change{Path: path, Kind: Deleted, OldMode: old.Mode, OldHash: old.SHA1}); err != nil {
			return ChangeSet{}, errors.Join(err, c.Discard())
		}
	}
	slices.SortFunc(c.set.Changes, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	return c.set, nil
}
