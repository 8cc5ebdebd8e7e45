package repotx

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// large makes a repository of 20,000 files in 400 folders.
func large(b *testing.B) *remoteRepo {
	b.Helper()
	files := map[string]string{}
	for i := range 20_000 {
		files[fmt.Sprintf("pkg%03d/sub%d/file%05d.go", i%200, i%2, i)] = fmt.Sprintf("package p%d\n\n%s\n", i, strings.Repeat(fmt.Sprintf("// line %d\n", i), 40))
	}
	return newServer(b).repository("large", files)
}

func tenChanges(i int) map[string]*string {
	change := map[string]*string{}
	for n := range 10 {
		f := n * 1999
		change[fmt.Sprintf("pkg%03d/sub%d/file%05d.go", f%200, f%2, f)] = text(fmt.Sprintf("package p\n\n// change %d of %d\n", n, i))
	}
	return change
}

// BenchmarkPublish is what a run does to a remote, with the baseline in the cache: open it, collect, check, build, fence,
// publish, read back.
func BenchmarkPublish(b *testing.B) {
	repo := large(b)
	remote := repo.remote(newStore(b))
	ctx := context.Background()
	first, err := remote.Fetch(ctx, repo.head)
	require.NoError(b, err)
	require.NoError(b, first.Close())
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		run := fmt.Sprint("run-", i)
		base, err := remote.Fetch(ctx, repo.head)
		require.NoError(b, err)
		cs := collect(b, base, tenChanges(i))
		require.NoError(b, base.Check(cs, allow(b, remote.repo, main)))
		c, err := base.Build(ctx, cs, testAuthor, "Change ten files", nil, testWhen)
		require.NoError(b, err)
		require.NoError(b, base.Close())
		fence, err := NewFence(FenceID{Run: run, Epoch: 1, Owner: "w/n"}, repo.head)
		require.NoError(b, err)
		require.NoError(b, remote.CreateFence(ctx, fence))
		in := Intent{Run: run, Epoch: 1, Fence: fence, TargetRef: "refs/heads/" + run, Commit: c.Hash, BaseRef: main, Base: repo.head, Pack: c.Pack, PackDigest: c.PackDigest}
		answer, err := remote.Publish(ctx, in)
		require.NoError(b, err)
		require.True(b, answer.Complete(), "%v", answer.Fault())
		seen, err := remote.ReadBack(ctx, in)
		require.NoError(b, err)
		require.True(b, seen.Confirms(in))
	}
}

// BenchmarkGitPush is the same change by stock git, from a clone that exists: add, commit, push.
func BenchmarkGitPush(b *testing.B) {
	repo := large(b)
	url := strings.Replace(repo.url(), "http://", "http://"+testUser+":"+testPassword+"@", 1)
	for i := 0; b.Loop(); i++ {
		repo.git(repo.work, "checkout", "-q", "--detach", repo.head)
		for path, content := range tenChanges(i) {
			require.NoError(b, os.WriteFile(filepath.Join(repo.work, path), []byte(*content), 0o644))
		}
		repo.git(repo.work, "add", "-A")
		repo.git(repo.work, "commit", "-q", "-m", "Change ten files")
		repo.git(repo.work, "push", "-q", url, fmt.Sprintf("HEAD:refs/heads/git-%d", i))
	}
}

func BenchmarkFetchCold(b *testing.B) {
	repo := large(b)
	for b.Loop() {
		base, err := repo.remote(newStore(b)).Fetch(context.Background(), repo.head)
		require.NoError(b, err)
		require.NoError(b, base.Close())
	}
}

func BenchmarkOpenCached(b *testing.B) {
	repo := large(b)
	remote := repo.remote(newStore(b))
	b.ReportAllocs()
	for b.Loop() {
		base, err := remote.Fetch(context.Background(), repo.head)
		require.NoError(b, err)
		require.NoError(b, base.Close())
	}
}

func BenchmarkWriteTar(b *testing.B) {
	repo := large(b)
	base, err := repo.remote(newStore(b)).Fetch(context.Background(), repo.head)
	require.NoError(b, err)
	defer base.Close()
	b.ReportAllocs()
	for b.Loop() {
		require.NoError(b, base.WriteTar(context.Background(), io.Discard))
	}
}
