package repotx

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
)

var (
	testAuthor = Author{Name: "Harness", Email: "harness@example.org"}
	testWhen   = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
)

const testManifest = "version: 1\npaths: ['**']\ntarget_refs: ['refs/heads/**']\nsymlinks: true\nprotected: []\n"

func allow(t testing.TB, repo Repository, target string, paths ...string) Allowance {
	t.Helper()
	if len(paths) == 0 {
		paths = []string{"**"}
	}
	b := Bounds{Paths: paths, Symlinks: true}
	a, err := Intersect(Grant{Repository: repo.ID, BaseRef: "refs/heads/main", TargetRef: target, Bounds: b}, b, nil)
	require.NoError(t, err)
	return a
}

// collect makes a change set: a nil value deletes, a string adds or modifies; everything else stays.
func collect(t testing.TB, b *Baseline, change map[string]*string) ChangeSet {
	t.Helper()
	c, err := NewCollector(b, Limits{})
	require.NoError(t, err)
	for path := range b.Known() {
		if _, touched := change[path]; !touched {
			require.NoError(t, c.Same(path))
		}
	}
	for path, content := range change {
		if content != nil {
			mode := ModeFile
			data := *content
			if target, ok := strings.CutPrefix(data, "->"); ok {
				mode, data = ModeSymlink, target
			} else if strings.HasPrefix(data, "#!") {
				mode = ModeExec
			}
			require.NoError(t, c.Add(path, mode, int64(len(data)), strings.NewReader(data)))
		}
	}
	cs, err := c.Finish()
	require.NoError(t, err)
	t.Cleanup(func() { cs.Close() })
	return cs
}

func text(s string) *string { return &s }

// transaction is a run up to its intent, fence in place.
type transaction struct {
	remote *Remote
	id     FenceID
	intent Intent
	commit *Commit
}

func begin(t testing.TB, repo *remoteRepo, store *Store, run, target string, change map[string]*string) *transaction {
	t.Helper()
	ctx := context.Background()
	tx := &transaction{remote: repo.remote(store), id: FenceID{Run: run, Epoch: 1, Owner: "worker-1/n-" + run}}
	baseline, err := tx.remote.ResolveRef(ctx, "refs/heads/main")
	require.NoError(t, err)
	b, err := tx.remote.Fetch(ctx, baseline)
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close()) }()
	fence, err := NewFence(tx.id, baseline)
	require.NoError(t, err)
	require.NoError(t, tx.remote.CreateFence(ctx, fence))
	cs := collect(t, b, change)
	require.NoError(t, b.Check(cs, allow(t, tx.remote.Repository(), target)))
	tx.commit, err = b.Build(ctx, cs, testAuthor, "Change things", []Trailer{
		{TrailerRun, run}, {TrailerTransaction, "tx-" + run}, {TrailerProfile, "sha256:" + strings.Repeat("0", 64)},
	}, testWhen)
	require.NoError(t, err)
	tx.intent = Intent{
		Run: run, Transaction: "tx-" + run, Epoch: 1, Fence: fence,
		TargetRef: target, Old: baseline, Commit: tx.commit.Hash, BaseRef: "refs/heads/main", Base: baseline,
		Pack: tx.commit.Pack, PackDigest: tx.commit.PackDigest,
	}
	if target != "refs/heads/main" {
		tx.intent.Old = Absent
	}
	return tx
}

func (tx *transaction) publish(t testing.TB) Answer {
	t.Helper()
	answer, err := tx.remote.Publish(context.Background(), tx.intent)
	require.NoError(t, err)
	return answer
}

// settle acts as the reconciler of epoch 2.
func (tx *transaction) settle(t testing.TB) Settlement {
	t.Helper()
	s, err := tx.remote.Settle(context.Background(), SettleInput{
		Run: tx.id.Run, Epoch: 2, Intent: &tx.intent, Fences: []string{tx.intent.Fence.Value},
	})
	require.NoError(t, err)
	return s
}

// A35, A39, A41: the thin thread, on the same branch and on a new one.
func TestTransactionLandsAsOneCommit(t *testing.T) {
	t.Parallel()
	for name, target := range map[string]string{"same branch": "refs/heads/main", "new branch": "refs/heads/work/new"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			repo := newServer(t).repository("project", map[string]string{
				"a.txt": "one\ntwo\n", "dir/b.txt": "b\n", "dir/run.sh": "#!/bin/sh\n", "gone.txt": "x\n", ManifestPath: testManifest,
			})
			tx := begin(t, repo, newStore(t), "run-1", target, map[string]*string{
				"a.txt": text("one\nthree\n"), "gone.txt": nil, "new/deep/c.txt": text("c\n"), "dir/run.sh": text("plain\n"),
			})
			answer := tx.publish(t)
			require.True(t, answer.Complete(), "%+v", answer)
			seen, err := tx.remote.ReadBack(context.Background(), tx.intent)
			require.NoError(t, err)
			require.True(t, seen.Confirms(tx.intent))

			require.Equal(t, tx.commit.Hash, repo.ref(target))
			require.Equal(t, tx.commit.Hash, repo.ref("refs/harness/fence/run-1"))
			require.Equal(t, "1", strings.TrimSpace(repo.git(repo.dir, "rev-list", "--count", repo.head+".."+target)))
			require.Equal(t, "M\ta.txt\nM\tdir/run.sh\nD\tgone.txt\nA\tnew/deep/c.txt\n",
				repo.git(repo.dir, "diff-tree", "-r", "--no-renames", "--name-status", "--no-commit-id", target))
			require.Equal(t, "run-1\n", repo.git(repo.dir, "log", "-1", "--format=%(trailers:key=Harness-Run,valueonly,separator=%x2C)", target))
			repo.git(repo.dir, "fsck", "--strict", "--full")
			if target != "refs/heads/main" {
				require.Equal(t, repo.head, repo.ref("refs/heads/main"))
			}
			require.Equal(t, evidence.EffectConfirmed, tx.settle(t).Effect)
		})
	}
}
