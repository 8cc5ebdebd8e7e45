package repotx

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	gitcache "github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

// cache keeps fetched baselines on disk, one folder per repository identity and commit, bounded in bytes, least recently
// used first out. It is safe for many processes and for their death at any point:
//
//	e-<key>/      a finished entry: it got its name by a rename. An open baseline holds a shared lock on its file "lock".
//	t-<random>/   a fetch under way. Its process holds an exclusive lock on its file "lock"; without one it is left over.
//	fetch-<nn>    lock files: one fetch at a time for the keys that share the number.
//	evict         lock file: one process at a time measures and removes.
type cache struct {
	dir   string
	bytes int64
}

// errCacheFull says that the baseline does not fit, or that all that could make room is in use.
var errCacheFull = errors.New("the baseline cache has no room")

// diskFull says that this machine's disk, or what the worker may have of it, is used up.
func diskFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

const (
	entryPrefix = "e-"
	tempPrefix  = "t-"
	lockName    = "lock"
	lockPoll    = 20 * time.Millisecond
)

// entry is an open cache entry, protected from eviction until it is closed.
type entry struct {
	dir  string
	lock *os.File
	once sync.Once
}

func (e *entry) close() { e.once.Do(func() { _ = unlock(e.lock) }) } // an unlocked, closed lock file cannot lose anything

func cacheKey(repository, commit string) string {
	sum := sha256.Sum256([]byte(repository + "\n" + commit))
	return hex.EncodeToString(sum[:])
}

// entry returns the entry of a commit, filling it by fetch when it is absent. Of several callers one fetches.
func (c *cache) entry(ctx context.Context, repository, commit string, fetch func(context.Context, string) error) (*entry, error) {
	key := cacheKey(repository, commit)
	if e, err := c.use(key); e != nil || err != nil {
		return e, err
	}
	guard, err := lockWait(ctx, filepath.Join(c.dir, "fetch-"+key[:2]))
	if err != nil {
		return nil, err
	}
	defer unlock(guard)
	if e, err := c.use(key); e != nil || err != nil {
		return e, err
	}
	return c.fill(ctx, key, fetch)
}

// use opens a finished entry, or returns nil when there is none.
func (c *cache) use(key string) (*entry, error) {
	dir := filepath.Join(c.dir, entryPrefix+key)
	lock, err := os.Open(filepath.Join(dir, lockName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("opening a cached baseline: %w", err)
	}
	// An exclusive lock belongs to a process that is about to remove the entry.
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {
		lock.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, nil
		}
		return nil, fmt.Errorf("locking a cached baseline: %w", err)
	}
	// The folder may have been removed, and another put in its place, between the open and the lock.
	same, err := sameFile(lock)
	if err == nil && same {
		now := time.Now()
		err = os.Chtimes(lock.Name(), now, now)
	}
	if err != nil || !same {
		unlock(lock)
		if err != nil {
			return nil, fmt.Errorf("marking a cached baseline as used: %w", err)
		}
		return nil, nil
	}
	return &entry{dir: dir, lock: lock}, nil
}

func (c *cache) fill(ctx context.Context, key string, fetch func(context.Context, string) error) (*entry, error) {
	temp, err := os.MkdirTemp(c.dir, tempPrefix)
	if err != nil {
		return nil, fmt.Errorf("making room for a baseline: %w", err)
	}
	lock, err := lockNow(filepath.Join(temp, lockName))
	if err == nil && lock == nil {
		err = errors.New("a sweep took the folder") // only between the two calls above
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making room for a baseline: %w", err), os.RemoveAll(temp))
	}
	e, err := c.fetched(ctx, key, temp, lock, fetch)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(temp), unlock(lock))
	}
	return e, nil
}

// fetched fills the folder, makes room for it and gives it its name.
func (c *cache) fetched(ctx context.Context, key, temp string, lock *os.File, fetch func(context.Context, string) error) (*entry, error) {
	if err := fetch(ctx, temp); err != nil {
		return nil, err
	}
	if err := syncTree(temp); err != nil {
		return nil, fmt.Errorf("storing a baseline: %w", err)
	}
	size, err := folderBytes(temp)
	if err != nil {
		return nil, fmt.Errorf("measuring a baseline: %w", err)
	}
	guard, err := lockWait(ctx, filepath.Join(c.dir, "evict"))
	if err != nil {
		return nil, err
	}
	defer unlock(guard)
	if err := c.evict(c.bytes - size); err != nil {
		return nil, err
	}
	// From exclusive to shared on the same open file: nobody can lock it in between, since its name is not known yet.
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_SH); err != nil {
		return nil, fmt.Errorf("locking a baseline: %w", err)
	}
	dir := filepath.Join(c.dir, entryPrefix+key)
	if err := os.Rename(temp, dir); err != nil {
		return nil, fmt.Errorf("naming a baseline: %w", err)
	}
	return &entry{dir: dir, lock: lock}, nil
}

// evict removes the least recently used entries that nobody has open until at most room bytes are left. The caller holds
// the lock file "evict".
func (c *cache) evict(room int64) error {
	if room < 0 {
		return fmt.Errorf("%w: one baseline is larger than the cache (%d bytes)", errCacheFull, c.bytes)
	}
	type candidate struct {
		dir  string
		size int64
		used time.Time
	}
	folders, err := os.ReadDir(c.dir)
	if err != nil {
		return fmt.Errorf("listing the cache: %w", err)
	}
	var all []candidate
	total := int64(0)
	for _, f := range folders {
		if !strings.HasPrefix(f.Name(), entryPrefix) {
			continue
		}
		dir := filepath.Join(c.dir, f.Name())
		size, err := folderBytes(dir)
		if err != nil {
			return fmt.Errorf("measuring the cache: %w", err)
		}
		info, err := os.Stat(filepath.Join(dir, lockName))
		if err != nil {
			return fmt.Errorf("measuring the cache: %w", err)
		}
		total += size
		all = append(all, candidate{dir, size, info.ModTime()})
	}
	slices.SortFunc(all, func(a, b candidate) int { return a.used.Compare(b.used) })
	for _, e := range all {
		if total <= room {
			return nil
		}
		removed, err := removeUnused(e.dir)
		if err != nil {
			return err
		}
		if removed {
			total -= e.size
		}
	}
	if total > room {
		return fmt.Errorf("%w: %d bytes are in use", errCacheFull, total)
	}
	return nil
}

// sweep removes what fetches left behind whose process is gone.
func (c *cache) sweep(ctx context.Context) error {
	guard, err := lockWait(ctx, filepath.Join(c.dir, "evict"))
	if err != nil {
		return err
	}
	defer unlock(guard)
	folders, err := os.ReadDir(c.dir)
	if err != nil {
		return err
	}
	for _, f := range folders {
		if !strings.HasPrefix(f.Name(), tempPrefix) {
			continue
		}
		info, err := f.Info()
		if errors.Is(err, fs.ErrNotExist) || err == nil && time.Since(info.ModTime()) < time.Minute {
			continue // gone, or so young that its process may be about to lock it
		}
		if err != nil {
			return err
		}
		if _, err := removeUnused(filepath.Join(c.dir, f.Name())); err != nil {
			return err
		}
	}
	return nil
}

// removeUnused removes a folder unless somebody holds its lock. It loses its name first, so a crash leaves no entry that
// looks whole; sweep finds the rest.
func removeUnused(dir string) (bool, error) {
	lock, err := lockNow(filepath.Join(dir, lockName))
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("removing a cached baseline: %w", err)
	}
	if lock == nil {
		return false, nil
	}
	defer unlock(lock)
	parent, name := filepath.Split(dir)
	doomed := dir
	if !strings.HasPrefix(name, tempPrefix) {
		doomed = filepath.Join(parent, tempPrefix+name)
		if err := os.Rename(dir, doomed); err != nil {
			return false, fmt.Errorf("removing a cached baseline: %w", err)
		}
	}
	if err := os.RemoveAll(doomed); err != nil {
		return false, fmt.Errorf("removing a cached baseline: %w", err)
	}
	return true, nil
}

// sameFile reports whether an open file still has its name.
func sameFile(f *os.File) (bool, error) {
	open, err := f.Stat()
	if err != nil {
		return false, err
	}
	named, err := os.Stat(f.Name())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return os.SameFile(open, named), nil
}

// unlock frees a lock and closes its file. Closing alone would not free it while a program that is just being started has the
// file too, as every new process has between its fork and its exec.
func unlock(f *os.File) error {
	return errors.Join(unix.Flock(int(f.Fd()), unix.LOCK_UN), f.Close())
}

// lockNow takes an exclusive lock on a file, made if absent. It returns nil when another holds it.
func lockNow(file string) (*os.File, error) {
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return f, nil
	}
	f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, nil
	}
	return nil, err
}

// lockWait is lockNow, waiting until the lock is free or the context ends. The kernel frees a dead process's locks.
func lockWait(ctx context.Context, file string) (*os.File, error) {
	for {
		f, err := lockNow(file)
		if err != nil {
			return nil, fmt.Errorf("locking the cache: %w", err)
		}
		if f != nil {
			return f, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for another fetch: %w", context.Cause(ctx))
		case <-time.After(lockPoll):
		}
	}
}

func folderBytes(dir string) (int64, error) {
	total := int64(0)
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		total += info.Size()
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return total, nil
	}
	return total, err
}

// syncTree makes the files durable before the folder gets its name, so that a power cut leaves no torn entry.
func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	})
}

// openStorage opens a finished object store for reading. Nobody changes it while it is open: without that word go-git looks
// for a loose object before every read, and with it never looks again for a pack that came later. Large blobs are read from
// disk, not through memory.
func openStorage(dir string) *filesystem.Storage {
	return filesystem.NewStorageWithOptions(osfs.New(dir), gitcache.NewObjectLRU(16*gitcache.MiByte), filesystem.Options{
		ExclusiveAccess:      true,
		KeepDescriptors:      true,
		LargeObjectThreshold: 1 << 20,
	})
}

// fillStorage opens an object store to put a pack into. It is closed before the store is read.
func fillStorage(dir string) *filesystem.Storage {
	return filesystem.NewStorageWithOptions(osfs.New(dir), gitcache.NewObjectLRU(16*gitcache.MiByte), filesystem.Options{
		LargeObjectThreshold: 1 << 20,
	})
}

// hasObject reports whether the store has an object. It asks for the size, because go-git's HasEncodedObject does not look
// into packs of a store that is opened for itself.
func hasObject(s *filesystem.Storage, hash string) (bool, error) {
	_, err := s.EncodedObjectSize(plumbing.NewHash(hash))
	if errors.Is(err, plumbing.ErrObjectNotFound) {
		return false, nil
	}
	return err == nil, err
}
