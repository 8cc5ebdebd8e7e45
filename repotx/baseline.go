package repotx

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"github.com/rein-aharness/harness/evidence"
)

// Known is what the baseline has at a path. Mode is git's: 0100644, 0100755 or 0120000.
type Known struct {
	Mode uint32
	Size int64
	// SHA1 is git's blob hash, 40 hex digits.
	SHA1 string
}

// The file modes of git that a change may have.
const (
	ModeFile    = uint32(filemode.Regular)
	ModeExec    = uint32(filemode.Executable)
	ModeSymlink = uint32(filemode.Symlink)
)

// maxBaselineEntries bounds the files of one baseline, all of whose names are held in memory.
const maxBaselineEntries = 1 << 20

// Baseline is the content of one commit, as objects and never as a checkout. It holds its cache entry until it is closed.
// Reading it from several goroutines is safe.
type Baseline struct {
	// Commit and Tree are the hashes, 40 hex digits.
	Commit, Tree string

	// objects reads the cached pack. go-git's pack reader is not safe for concurrent use: mu guards it.
	mu      sync.Mutex
	objects *filesystem.Storage
	entry   *entry
	// files are the blobs by path, gitlinks the submodules, whose content is never part of a run.
	files    map[string]Known
	gitlinks map[string]bool
	paths    []string // of files, in the order of the tree
	ignore   *ignoreRules

	packBytes int64
}

func openBaseline(ctx context.Context, e *entry, commit string, packBytes int64) (*Baseline, error) {
	b := &Baseline{
		Commit: commit, entry: e, objects: openStorage(e.dir), packBytes: packBytes,
		files: map[string]Known{}, gitlinks: map[string]bool{},
	}
	if err := b.load(ctx); err != nil {
		b.objects.Close()
		return nil, err
	}
	return b, nil
}

func (b *Baseline) load(ctx context.Context) error {
	c, err := object.GetCommit(b.objects, plumbing.NewHash(b.Commit))
	if err != nil {
		return fmt.Errorf("reading the baseline's commit: %w", err)
	}
	b.Tree = c.TreeHash.String()
	if err := b.walk(ctx, "", c.TreeHash, 0); err != nil {
		return err
	}
	b.ignore, err = b.loadIgnore()
	return err
}

// walk lists a folder. A tree that names something no workspace may hold makes the whole baseline unusable.
func (b *Baseline) walk(ctx context.Context, prefix string, hash plumbing.Hash, depth int) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if depth > maxPathDepth {
		return evidence.Fail(evidence.StagePreflight, evidence.CodeDepthExceeded, "baseline", nil)
	}
	tree, err := object.GetTree(b.objects, hash)
	if err != nil {
		return fmt.Errorf("reading the baseline's tree at %q: %w", prefix, err)
	}
	for _, e := range tree.Entries {
		path := prefix + e.Name
		if bad := badName(e.Name); bad != nil {
			return evidence.Fail(evidence.StagePreflight, evidence.CodePathInvalid, path, bad)
		}
		switch e.Mode {
		case filemode.Dir:
			if err := b.walk(ctx, path+"/", e.Hash, depth+1); err != nil {
				return err
			}
		case filemode.Submodule:
			b.gitlinks[path] = true
		case filemode.Regular, filemode.Executable, filemode.Symlink, filemode.Deprecated:
			size, err := b.objects.EncodedObjectSize(e.Hash)
			if err != nil {
				return fmt.Errorf("reading the baseline's file %q: %w", path, err)
			}
			mode := uint32(e.Mode)
			if mode == ModeSymlink && size > maxLinkBytes {
				return evidence.Fail(evidence.StagePreflight, evidence.CodeSymlinkRefused, path, errors.New("the baseline has an over-long target"))
			}
			if e.Mode == filemode.Deprecated { // group-writable, written by very old gits
				mode = ModeFile
			}
			if _, dup := b.files[path]; dup {
				return evidence.Fail(evidence.StagePreflight, evidence.CodePathCollision, path, errors.New("the baseline names it twice"))
			}
			b.files[path] = Known{Mode: mode, Size: size, SHA1: e.Hash.String()}
			b.paths = append(b.paths, path)
			if len(b.paths) > maxBaselineEntries {
				return evidence.Fail(evidence.StagePreflight, evidence.CodeEntriesExceeded, "baseline", nil)
			}
		default:
			return evidence.Fail(evidence.StagePreflight, evidence.CodeModeRefused, path, fmt.Errorf("the baseline has mode %o", uint32(e.Mode)))
		}
	}
	return nil
}

// badName refuses what must never be unpacked. A name that is merely unusual may exist in the baseline and stays as it is.
func badName(name string) error {
	if name == "" || name == "." || name == ".." || isDotGit(name) {
		return fmt.Errorf("the baseline has the component %q", name)
	}
	for i := range len(name) {
		if name[i] == '/' || name[i] == 0 {
			return errors.New("the baseline has a component with a slash or NUL")
		}
	}
	return nil
}

// Close lets go of the cache entry. The baseline must not be used any more.
func (b *Baseline) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.objects.Close()
	b.entry.close()
	return err
}

// Known gives every file of the baseline by path. The caller owns the map.
func (b *Baseline) Known() map[string]Known { return maps.Clone(b.files) }

// Ignored reports whether the baseline's own .gitignore files ignore an untracked path. A tracked path is never ignored.
func (b *Baseline) Ignored(path string) bool {
	_, tracked := b.files[path]
	return !tracked && b.ignore.match(path)
}

// Manifest reads the repository's manifest and its digest. found is false when the baseline has none; one that is there
// and cannot be read is CodeManifestMalformed.
func (b *Baseline) Manifest(ctx context.Context) (m *Manifest, digest string, found bool, err error) {
	known, ok := b.files[ManifestPath]
	if !ok {
		return nil, "", false, ctx.Err()
	}
	if known.Mode == ModeSymlink || known.Size > maxManifestBytes {
		return nil, "", true, evidence.Fail(evidence.StagePreflight, evidence.CodeManifestMalformed, ManifestPath,
			errors.New("it is a symbolic link or too long"))
	}
	data, err := b.blob(known)
	if err != nil {
		return nil, "", true, evidence.Fail(evidence.StagePreflight, evidence.CodeCacheExhausted, ManifestPath, err)
	}
	if m, err = ParseManifest(data); err != nil {
		return nil, "", true, err
	}
	if digest, err = m.Digest(); err != nil {
		return nil, "", true, evidence.Fail(evidence.StagePreflight, evidence.CodeManifestMalformed, ManifestPath, err)
	}
	return m, digest, true, nil
}

// blob reads a small blob into memory.
func (b *Baseline) blob(k Known) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r, err := b.reader(k.SHA1)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data := make([]byte, k.Size)
	if _, err := io.ReadFull(r, data); err != nil {
		return nil, fmt.Errorf("reading blob %s: %w", k.SHA1, err)
	}
	return data, nil
}

// reader opens a blob. The caller holds mu until it has closed it.
func (b *Baseline) reader(hash string) (io.ReadCloser, error) {
	o, err := b.objects.EncodedObject(plumbing.BlobObject, plumbing.NewHash(hash))
	if err != nil {
		return nil, fmt.Errorf("reading blob %s: %w", hash, err)
	}
	r, err := o.Reader()
	if err != nil {
		return nil, fmt.Errorf("reading blob %s: %w", hash, err)
	}
	return r, nil
}

// holds reports whether the baseline's store has the object, so that the remote has it too.
func (b *Baseline) holds(hash string) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return hasObject(b.objects, hash)
}

// WriteTar writes every file, link and folder of the baseline in the order of the tree, byte for byte as git stores them:
// no filter, no line-end conversion. Submodules are left out. Times are the zero time of Unix.
func (b *Baseline) WriteTar(ctx context.Context, w io.Writer) error {
	tw := tar.NewWriter(w)
	made := map[string]bool{}
	for _, path := range b.paths {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		for _, dir := range parents(path) {
			if made[dir] {
				continue
			}
			made[dir] = true
			h := &tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, ModTime: time.Unix(0, 0), Format: tar.FormatPAX}
			if err := tw.WriteHeader(h); err != nil {
				return fmt.Errorf("writing folder %q: %w", dir, err)
			}
		}
		if err := b.writeEntry(tw, path); err != nil {
			return fmt.Errorf("writing file %q: %w", path, err)
		}
	}
	return tw.Close()
}

func (b *Baseline) writeEntry(tw *tar.Writer, path string) error {
	known := b.files[path]
	h := &tar.Header{Typeflag: tar.TypeReg, Name: path, Size: known.Size, Mode: 0o644, ModTime: time.Unix(0, 0), Format: tar.FormatPAX}
	switch known.Mode {
	case ModeExec:
		h.Mode = 0o755
	case ModeSymlink:
		target, err := b.blob(known)
		if err != nil {
			return err
		}
		h.Typeflag, h.Linkname, h.Size, h.Mode = tar.TypeSymlink, string(target), 0, 0o777
		return tw.WriteHeader(h)
	}
	if err := tw.WriteHeader(h); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	r, err := b.reader(known.SHA1)
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.Copy(tw, r)
	return err
}

// parents lists the folders above a path, outermost first.
func parents(path string) []string {
	var dirs []string
	for i := range len(path) {
		if path[i] == '/' {
			dirs = append(dirs, path[:i])
		}
	}
	return slices.Clip(dirs)
}
