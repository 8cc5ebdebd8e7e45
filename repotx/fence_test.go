package repotx

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
)

// A37: a fence creation that arrives after the takeover finds the tombstone and is refused, and so is what would follow it.
func TestFenceCreationDelayedPastTakeoverIsRefused(t *testing.T) {
	t.Parallel()
	repo, store := project(t), newStore(t)
	remote := repo.remote(store)
	fence, err := NewFence(FenceID{Run: "run-1", Epoch: 1, Owner: "worker-1/a"}, repo.head)
	require.NoError(t, err)

	held, release := make(chan struct{}), make(chan struct{})
	var first sync.Once
	repo.onPush(func(next http.Handler, w http.ResponseWriter, req *http.Request) {
		delayed := false
		first.Do(func() { delayed = true })
		if delayed {
			close(held)
			<-release
		}
		next.ServeHTTP(w, req)
	})
	created := make(chan error, 1)
	go func() { created <- remote.CreateFence(context.Background(), fence) }()
	<-held
	s, err := repo.remote(store).Settle(context.Background(), SettleInput{Run: "run-1", Epoch: 2, Fences: []string{fence.Value}})
	require.NoError(t, err)
	require.Equal(t, evidence.EffectNotApplied, s.Effect)
	close(release)
	err = <-created
	require.Equal(t, evidence.CodeFenceConflict, evidence.CodeOf(err), "%v", err)
	require.Equal(t, TombstoneValue("run-1", 2), repo.ref("refs/harness/fence/run-1"))
}

// A36, A37, CASES 13: the push of a worker that was overtaken while the request was under way changes nothing.
func TestPublishHeldPastTakeoverLandsNothing(t *testing.T) {
	t.Parallel()
	repo := project(t)
	tx := begin(t, repo, newStore(t), "run-1", main, change())
	held, release := make(chan struct{}), make(chan struct{})
	var first sync.Once
	repo.onPush(func(next http.Handler, w http.ResponseWriter, req *http.Request) {
		delayed := false
		first.Do(func() { delayed = true })
		if delayed {
			close(held)
			<-release
		}
		next.ServeHTTP(w, req)
	})
	answers := make(chan Answer, 1)
	go func() {
		answer, _ := tx.remote.Publish(context.Background(), tx.intent)
		answers <- answer
	}()
	<-held
	require.Equal(t, evidence.EffectNotApplied, tx.settle(t).Effect)
	close(release)
	require.False(t, (<-answers).Complete())
	require.Equal(t, repo.head, repo.ref(main))
	require.Equal(t, evidence.EffectNotApplied, tx.settle(t).Effect)
}

// A40: without an intent nothing was published, whatever the fence's state was.
func TestSettlingWithoutAnIntentClosesTheFence(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(t *testing.T, remote *Remote, fence Fence) []string{
		"never created":           func(*testing.T, *Remote, Fence) []string { return nil },
		"created and recorded":    func(t *testing.T, r *Remote, f Fence) []string { return create(t, r, f, f.Value) },
		"created, record missing": func(t *testing.T, r *Remote, f Fence) []string { return create(t, r, f) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			repo := project(t)
			remote := repo.remote(newStore(t))
			fence, err := NewFence(FenceID{Run: "run-1", Epoch: 1, Owner: "worker-1/a"}, repo.head)
			require.NoError(t, err)
			s, err := remote.Settle(context.Background(), SettleInput{Run: "run-1", Epoch: 3, Fences: prepare(t, remote, fence)})
			require.NoError(t, err)
			require.Equal(t, evidence.EffectNotApplied, s.Effect, "%+v", s)
			require.Empty(t, s.Code)
			require.Equal(t, TombstoneValue("run-1", 3), repo.ref("refs/harness/fence/run-1"))
			repo.git(repo.dir, "fsck", "--strict", "--full")

			err = remote.CreateFence(context.Background(), fence)
			require.Equal(t, evidence.CodeFenceConflict, evidence.CodeOf(err), "a closed fence is never adopted")

			s, err = remote.Settle(context.Background(), SettleInput{Run: "run-1", Epoch: 4})
			require.NoError(t, err)
			require.Equal(t, TombstoneValue("run-1", 3), s.Fence, "a tombstone of an earlier epoch decides as well")
			require.NoError(t, remote.DeleteFence(context.Background(), "run-1", s.Fence))
			require.Empty(t, repo.ref("refs/harness/fence/run-1"))
			require.NoError(t, remote.DeleteFence(context.Background(), "run-1", s.Fence), "a second time does nothing")
		})
	}
}

func create(t *testing.T, r *Remote, f Fence, recorded ...string) []string {
	t.Helper()
	require.NoError(t, r.CreateFence(context.Background(), f))
	return recorded
}

// A36, A37: no two leases share a fence, also of one process: that of an earlier epoch is in a later one's way, and stays as it is.
func TestOpenFenceOfAnEarlierEpochIsNotAdopted(t *testing.T) {
	t.Parallel()
	for _, owner := range []string{"worker-1/a", "worker-2/b"} {
		repo := project(t)
		remote := repo.remote(newStore(t))
		first, err := NewFence(FenceID{Run: "run-1", Epoch: 1, Owner: "worker-1/a"}, repo.head)
		require.NoError(t, err)
		create(t, remote, first)
		next, err := NewFence(FenceID{Run: "run-1", Epoch: 2, Owner: owner}, repo.head)
		require.NoError(t, err)
		err = remote.CreateFence(context.Background(), next)
		require.Equal(t, evidence.CodeFenceConflict, evidence.CodeOf(err), "the open fence of an earlier epoch is never adopted: %s", owner)
		require.Equal(t, first.Value, repo.ref("refs/harness/fence/run-1"))
	}
}

// A36: an epoch that only publishes moves the fence to its own value; the intent of the epoch before is void from then on.
func TestMovedFenceVoidsTheEarlierEpoch(t *testing.T) {
	t.Parallel()
	repo := project(t)
	tx := begin(t, repo, newStore(t), "run-1", main, change())
	next, err := NewFence(FenceID{Run: "run-1", Epoch: 2, Owner: "worker-2/b"}, repo.head)
	require.NoError(t, err)
	require.NoError(t, tx.remote.MoveFence(context.Background(), tx.intent.Fence.Value, next))
	require.False(t, tx.publish(t).Complete())
	require.Equal(t, repo.head, repo.ref(main))

	stale := tx.intent
	tx.intent.Fence, tx.intent.Epoch = next, 2
	require.True(t, tx.publish(t).Complete())
	s, err := tx.remote.Settle(context.Background(), SettleInput{
		Run: "run-1", Epoch: 3, Intent: &tx.intent, Fences: []string{stale.Fence.Value, next.Value},
	})
	require.NoError(t, err)
	require.Equal(t, evidence.EffectConfirmed, s.Effect)
}

// Another run's or another value's deletion is refused by the remote's own compare.
func TestDeleteFenceComparesFirst(t *testing.T) {
	t.Parallel()
	repo := project(t)
	tx := begin(t, repo, newStore(t), "run-1", main, change())
	err := tx.remote.DeleteFence(context.Background(), "run-1", repo.head)
	require.Equal(t, evidence.CodeFenceConflict, evidence.CodeOf(err))
	require.Equal(t, tx.intent.Fence.Value, repo.ref("refs/harness/fence/run-1"))
}

// B35: without a fence the branch alone speaks.
func TestSettlingWaived(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name   string
		fault  func(t *testing.T, repo *remoteRepo, tx *transaction)
		effect evidence.Effect
		reason Reason
	}{
		{"published", func(t *testing.T, _ *remoteRepo, tx *transaction) {
			require.True(t, tx.publish(t).Complete())
		}, evidence.EffectConfirmed, ReasonBranchHolds},
		{"branch at the old value", func(*testing.T, *remoteRepo, *transaction) {}, evidence.EffectUnknown, ReasonBranchUnmoved},
		{"branch went on without it", func(t *testing.T, repo *remoteRepo, _ *transaction) {
			repo.commit("main", map[string]string{"c.txt": "third party\n"})
		}, evidence.EffectNotApplied, ReasonBranchMovedOn},
		{"branch replaced", func(t *testing.T, repo *remoteRepo, _ *transaction) {
			repo.git(repo.work, "checkout", "-q", "--orphan", "other")
			repo.commit("main", map[string]string{"c.txt": "other history\n"})
		}, evidence.EffectUnknown, ReasonBranchReplaced},
		{"branch deleted", func(t *testing.T, repo *remoteRepo, _ *transaction) {
			repo.git(repo.dir, "update-ref", "-d", main)
		}, evidence.EffectUnknown, ReasonBranchReplaced},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			repo := project(t)
			repo.git(repo.dir, "config", "receive.advertiseAtomic", "false")
			remote := repo.remote(newStore(t))
			adv, err := remote.Advertise(context.Background())
			require.NoError(t, err)
			require.False(t, adv.Fenceable())
			require.Equal(t, evidence.CodeRemoteUnsupported, evidence.CodeOf(adv.RequireFence()))
			tx := unfenced(t, repo, remote)
			row.fault(t, repo, tx)
			s, err := remote.Settle(context.Background(), SettleInput{Run: "run-1", Epoch: 2, Intent: &tx.intent, Waived: true})
			require.NoError(t, err)
			require.Equal(t, row.effect, s.Effect, "%+v", s)
			require.Equal(t, row.reason, s.Reason)
			require.Empty(t, repo.ref("refs/harness/fence/run-1"))
		})
	}
}

// The preflight has asked the remote, and then it changes: that is no fault of the network, and says so.
func TestFenceAtARemoteThatLostAtomicUpdatesNamesIt(t *testing.T) {
	t.Parallel()
	repo := project(t)
	remote := repo.remote(newStore(t))
	repo.git(repo.dir, "config", "receive.advertiseAtomic", "false")
	f, err := NewFence(FenceID{Run: "run-1", Epoch: 1, Owner: "w1"}, repo.head)
	require.NoError(t, err)
	require.Equal(t, evidence.CodeRemoteUnsupported, evidence.CodeOf(remote.CreateFence(context.Background(), f)))
	require.Empty(t, repo.ref(f.Ref))
}

// unfenced is begin for a remote that cannot fence.
func unfenced(t *testing.T, repo *remoteRepo, remote *Remote) *transaction {
	t.Helper()
	b, err := remote.Fetch(context.Background(), repo.head)
	require.NoError(t, err)
	defer b.Close()
	cs := collect(t, b, change())
	c, err := b.Build(context.Background(), cs, testAuthor, "Change", nil, testWhen)
	require.NoError(t, err)
	return &transaction{remote: remote, id: FenceID{Run: "run-1", Epoch: 1}, commit: c, intent: Intent{
		Run: "run-1", Transaction: "tx", Epoch: 1, TargetRef: main, Old: repo.head, Commit: c.Hash, BaseRef: main, Base: repo.head,
		Pack: c.Pack, PackDigest: c.PackDigest,
	}}
}

// A history that is longer than may be read leaves the question open instead of guessing.
func TestHistoryBeyondItsBoundIsUnseen(t *testing.T) {
	t.Parallel()
	repo := project(t)
	store := newStore(t)
	store.config.HistoryBytes = 2000
	tx := begin(t, repo, store, "run-1", main, change())
	for i := range 40 {
		repo.git(repo.work, "commit", "-q", "--allow-empty", "-m", fmt.Sprint("a third party's commit number ", i))
	}
	repo.git(repo.work, "push", "-q", repo.dir, "HEAD:main")
	seen, err := tx.remote.ReadBack(context.Background(), tx.intent)
	require.NoError(t, err)
	require.Equal(t, Unseen, seen.Commit)
	require.ErrorIs(t, seen.Why, errAnswerTooLong)
	s := tx.settle(t)
	require.Equal(t, evidence.EffectUnknown, s.Effect)
	require.Equal(t, ReasonHistoryUnread, s.Reason)
}

// A tombstone decides however far the epochs have been raised since, and only one of an epoch that has passed.
func TestTombstoneOfADistantEpochIsRecognised(t *testing.T) {
	t.Parallel()
	repo := project(t)
	tx := begin(t, repo, newStore(t), "run-1", main, change())
	require.Equal(t, evidence.EffectNotApplied, tx.settle(t).Effect)
	for epoch, want := range map[int64]evidence.Effect{1_000_000: evidence.EffectNotApplied, 1: evidence.EffectUnknown} {
		s, err := tx.remote.Settle(context.Background(), SettleInput{Run: "run-1", Epoch: epoch, Intent: &tx.intent, Fences: []string{tx.intent.Fence.Value}})
		require.NoError(t, err)
		require.Equal(t, want, s.Effect, "%+v", s)
	}
}
