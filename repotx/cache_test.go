package repotx

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/tests/stack"
)

func entries(t *testing.T, dir string) (names []string) {
	t.Helper()
	found, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, f := range found {
		if f.IsDir() {
			names = append(names, f.Name())
		}
	}
	return names
}

// Of many stores over one folder one fetches; the rest wait for it and share what it got.
func TestCacheFetchesOnce(t *testing.T) {
	t.Parallel()
	repo := project(t)
	var fetches atomic.Int32
	repo.intercept(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				fetches.Add(1)
			}
			next.ServeHTTP(w, r)
		})
	})
	dir := t.TempDir()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			store, err := Open(context.Background(), Config{CacheDir: dir})
			if err != nil {
				t.Error(err)
				return
			}
			b, err := repo.remote(store).Fetch(context.Background(), repo.head)
			if err != nil {
				t.Error(err)
				return
			}
			if len(b.Known()) != 2 {
				t.Error("files are missing")
			}
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, fetches.Load())
	require.Len(t, entries(t, dir), 1)
}

func TestCacheEvictsTheLeastRecentlyUsedThatIsNotOpen(t *testing.T) {
	t.Parallel()
	repo := newServer(t).repository("project", map[string]string{"a": strings.Repeat("x", 100)})
	repo.git(repo.dir, "config", "uploadpack.allowReachableSHA1InWant", "true")
	heads := []string{repo.head}
	for i := range 3 {
		heads = append(heads, repo.commit("main", map[string]string{"a": fmt.Sprint(i)}))
	}
	dir := t.TempDir()
	store, err := Open(context.Background(), Config{CacheDir: dir})
	require.NoError(t, err)
	remote := repo.remote(store)
	open := func(i int) *Baseline {
		b, err := remote.Fetch(context.Background(), heads[i])
		require.NoError(t, err)
		return b
	}
	there := func(i int) bool {
		_, err := os.Stat(filepath.Join(dir, entryPrefix+cacheKey(remote.repo.ID, heads[i])))
		return err == nil
	}
	held := open(0)
	one, err := folderBytes(held.entry.dir)
	require.NoError(t, err)
	store.cache.bytes = 2*one + one/2
	require.NoError(t, open(1).Close())
	require.NoError(t, open(2).Close())
	require.True(t, there(0), "open, so it stays, though it is the oldest")
	require.False(t, there(1))
	require.True(t, there(2))
	require.NoError(t, held.Close())
	time.Sleep(20 * time.Millisecond) // the order of use is told by the file system's clock
	require.NoError(t, open(2).Close())
	require.NoError(t, open(3).Close())
	require.False(t, there(0))
	require.True(t, there(2) && there(3))

	store.cache.bytes = one / 2
	_, err = remote.Fetch(context.Background(), heads[1])
	require.Equal(t, evidence.CodeCacheExhausted, evidence.CodeOf(err))
	store.config.CacheBytes = 10
	_, err = remote.Fetch(context.Background(), heads[1])
	require.Equal(t, evidence.CodeCacheExhausted, evidence.CodeOf(err))
}

func TestCacheSweepsWhatACrashLeft(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old := time.Now().Add(-time.Hour)
	for _, name := range []string{"t-dead", "t-alive", "t-young"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, name, "objects"), 0o700))
		if name != "t-young" {
			require.NoError(t, os.Chtimes(filepath.Join(dir, name), old, old))
		}
	}
	lock, err := lockNow(filepath.Join(dir, "t-alive", lockName))
	require.NoError(t, err)
	require.NoError(t, os.Chtimes(filepath.Join(dir, "t-alive"), old, old))
	defer lock.Close()
	_, err = Open(context.Background(), Config{CacheDir: dir})
	require.NoError(t, err)
	require.Equal(t, []string{"t-alive", "t-young"}, entries(t, dir))
}

// A fetch that fails or is broken off leaves nothing, and the next one succeeds.
func TestFailedFetchLeavesNothing(t *testing.T) {
	t.Parallel()
	repo := project(t)
	dir := t.TempDir()
	store, err := Open(context.Background(), Config{CacheDir: dir})
	require.NoError(t, err)
	repo.intercept(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				next.ServeHTTP(&cutting{ResponseWriter: w, left: 150}, r)
				return
			}
			next.ServeHTTP(w, r)
		})
	})
	_, err = repo.remote(store).Fetch(context.Background(), repo.head)
	require.Equal(t, evidence.CodeRemoteUnreachable, evidence.CodeOf(err), "%v", err)
	require.Empty(t, entries(t, dir))
	repo.pass()
	ctx, cancel := context.WithCancelCause(context.Background())
	gone := errors.New("lease lost")
	cancel(gone)
	_, err = repo.remote(store).Fetch(ctx, repo.head)
	require.ErrorIs(t, err, gone)
	require.Empty(t, entries(t, dir))
	b, err := repo.remote(store).Fetch(context.Background(), repo.head)
	require.NoError(t, err)
	require.NoError(t, b.Close())
}

// cutting ends an answer early.
type cutting struct {
	http.ResponseWriter
	left int
}

func (c *cutting) Write(p []byte) (int, error) {
	if len(p) > c.left {
		c.ResponseWriter.Write(p[:c.left])
		panic(http.ErrAbortHandler)
	}
	c.left -= len(p)
	return c.ResponseWriter.Write(p)
}

// A damaged entry is replaced by a fresh fetch instead of failing every run on that commit.
func TestDamagedEntryIsFetchedAgain(t *testing.T) {
	t.Parallel()
	repo := project(t)
	store := newStore(t)
	b, err := repo.remote(store).Fetch(context.Background(), repo.head)
	require.NoError(t, err)
	packs, err := filepath.Glob(filepath.Join(b.entry.dir, "objects/pack/*.pack"))
	require.NoError(t, err)
	require.Len(t, packs, 1)
	require.NoError(t, b.Close())
	require.NoError(t, os.Chmod(packs[0], 0o600))
	require.NoError(t, os.Truncate(packs[0], 40))
	b, err = repo.remote(store).Fetch(context.Background(), repo.head)
	require.NoError(t, err)
	require.Len(t, b.Known(), 2)
	require.NoError(t, b.Close())
}

// A full disk of this machine is not called a fault of the remote, leaves nothing behind, and is over once there is room.
func TestAFullDiskIsSaidToBeOneAndLeavesNothing(t *testing.T) {
	t.Parallel()
	repo := newServer(t).repository("project", map[string]string{"a": "x"})
	disk := stack.SmallDisk(t, "2m")
	store, err := Open(context.Background(), Config{CacheDir: disk.Dir, Timeout: 20 * time.Second})
	require.NoError(t, err)
	disk.Fill(t)
	_, err = repo.remote(store).Fetch(context.Background(), repo.head)
	require.Equal(t, evidence.CodeCacheExhausted, evidence.CodeOf(err), "%v", err)
	disk.Free(t)
	require.Empty(t, entries(t, disk.Dir))
	left, err := filepath.Glob(filepath.Join(disk.Dir, tempPrefix+"*"))
	require.NoError(t, err)
	require.Empty(t, left)

	b, err := repo.remote(store).Fetch(context.Background(), repo.head)
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close()) }()
	c, err := NewCollector(b, Limits{})
	require.NoError(t, err)
	disk.Fill(t)
	content := strings.Repeat("y", 64<<10)
	err = c.Add("b", ModeFile, int64(len(content)), strings.NewReader(content))
	require.Equal(t, evidence.CodeDiskExceeded, evidence.CodeOf(err), "%v", err)
	require.NoError(t, c.Discard())
}
