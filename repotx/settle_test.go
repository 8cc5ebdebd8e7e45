package repotx

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
)

const main = "refs/heads/main"

// hook installs a program that git runs on the server.
func (r *remoteRepo) hook(name, script string) {
	r.t.Helper()
	require.NoError(r.t, os.WriteFile(filepath.Join(r.dir, "hooks", name), []byte("#!/bin/sh\n"+script), 0o755))
}

func (r *remoteRepo) unhook(name string) {
	r.t.Helper()
	require.NoError(r.t, os.Remove(filepath.Join(r.dir, "hooks", name)))
}

// onPush puts do in the place of the one exchange that pushes; refs are still advertised as usual.
func (r *remoteRepo) onPush(do func(next http.Handler, w http.ResponseWriter, req *http.Request)) {
	r.intercept(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if req.Method == http.MethodPost && strings.HasSuffix(req.URL.Path, "/git-receive-pack") {
				do(next, w, req)
				return
			}
			next.ServeHTTP(w, req)
		})
	})
}

func hangUp(w http.ResponseWriter) {
	panic(http.ErrAbortHandler)
}

func project(t testing.TB) *remoteRepo {
	t.Helper()
	return newServer(t).repository("project", map[string]string{"a.txt": "one\n", "b.txt": "two\n"})
}

func change() map[string]*string { return map[string]*string{"a.txt": text("changed\n")} }

// A37, A40, A41, B28, B29: one test per row of the settling rules, each against stock git.
func TestSettlingRows(t *testing.T) {
	t.Parallel()
	const (
		existing = main
		fresh    = "refs/heads/work/one"
	)
	rows := []struct {
		name   string
		target string
		// fault makes the history of the row, the publication included.
		fault  func(t *testing.T, repo *remoteRepo, tx *transaction)
		effect evidence.Effect
		reason Reason
		code   evidence.Code
	}{
		{
			name: "published and read back", target: existing,
			fault: func(t *testing.T, _ *remoteRepo, tx *transaction) {
				require.True(t, tx.publish(t).Complete())
			},
			effect: evidence.EffectConfirmed, reason: ReasonBranchHolds,
		},
		{
			name: "never sent", target: existing,
			fault:  func(*testing.T, *remoteRepo, *transaction) {},
			effect: evidence.EffectNotApplied, reason: ReasonTombstoned, code: evidence.CodePublicationRefused,
		},
		{
			name: "never sent, new branch", target: fresh,
			fault:  func(*testing.T, *remoteRepo, *transaction) {},
			effect: evidence.EffectNotApplied, reason: ReasonTombstoned, code: evidence.CodePublicationRefused,
		},
		{
			name: "baseline moved before the push", target: existing,
			fault: func(t *testing.T, repo *remoteRepo, tx *transaction) {
				repo.commit("main", map[string]string{"c.txt": "third party\n"})
				require.False(t, tx.publish(t).Complete())
			},
			effect: evidence.EffectNotApplied, reason: ReasonTombstoned, code: evidence.CodeBaselineMoved,
		},
		{
			name: "baseline moved between the look and the push", target: existing,
			fault: func(t *testing.T, repo *remoteRepo, tx *transaction) {
				repo.onPush(func(next http.Handler, w http.ResponseWriter, req *http.Request) {
					repo.commit("main", map[string]string{"c.txt": "third party\n"})
					next.ServeHTTP(w, req)
				})
				answer := tx.publish(t)
				require.True(t, answer.Sent)
				require.False(t, answer.Complete())
				repo.pass()
			},
			effect: evidence.EffectNotApplied, reason: ReasonTombstoned, code: evidence.CodeBaselineMoved,
		},
		{
			name: "base moved under a new branch, between the look and the push", target: fresh,
			fault: func(t *testing.T, repo *remoteRepo, tx *transaction) {
				repo.onPush(func(next http.Handler, w http.ResponseWriter, req *http.Request) {
					repo.commit("main", map[string]string{"c.txt": "third party\n"})
					next.ServeHTTP(w, req)
				})
				require.False(t, tx.publish(t).Complete())
				repo.pass()
				require.Empty(t, repo.ref(fresh))
			},
			effect: evidence.EffectNotApplied, reason: ReasonTombstoned, code: evidence.CodePublicationRefused,
		},
		{
			name: "server dies with its locks set, locks stay", target: existing,
			fault: func(t *testing.T, repo *remoteRepo, tx *transaction) {
				repo.hook("reference-transaction", `test "$1" = prepared && kill -9 $PPID; exit 0`)
				require.False(t, tx.publish(t).Complete())
				repo.unhook("reference-transaction")
				require.FileExists(t, filepath.Join(repo.dir, "refs/harness/fence/run-1.lock"))
			},
			effect: evidence.EffectUnknown, reason: ReasonFenceStuck, code: evidence.CodeSettleUnknown,
		},
		{
			name: "server dies with its locks set, locks cleared by an operator", target: existing,
			fault: func(t *testing.T, repo *remoteRepo, tx *transaction) {
				repo.hook("reference-transaction", `test "$1" = prepared && kill -9 $PPID; exit 0`)
				require.False(t, tx.publish(t).Complete())
				repo.unhook("reference-transaction")
				require.NoError(t, os.Remove(filepath.Join(repo.dir, "refs/harness/fence/run-1.lock")))
				require.NoError(t, os.Remove(filepath.Join(repo.dir, "refs/heads/main.lock")))
			},
			effect: evidence.EffectNotApplied, reason: ReasonTombstoned, code: evidence.CodePublicationRefused,
		},
		{
			name: "server dies between the two ref updates", target: existing,
			fault: func(t *testing.T, repo *remoteRepo, tx *transaction) {
				publishHalf(t, repo, tx, "refs/heads/main")
			},
			effect: evidence.EffectPartial, reason: ReasonBranchUnmoved, code: evidence.CodePublicationPartial,
		},
		{
			name: "server dies between the two ref updates, new branch", target: fresh,
			fault: func(t *testing.T, repo *remoteRepo, tx *transaction) {
				publishHalf(t, repo, tx, fresh)
			},
			effect: evidence.EffectPartial, reason: ReasonBranchUnmoved, code: evidence.CodePublicationPartial,
		},
		{
			name: "stale branch lock fails the push", target: existing,
			fault: func(t *testing.T, repo *remoteRepo, tx *transaction) {
				lock := filepath.Join(repo.dir, "refs/heads/main.lock")
				require.NoError(t, os.WriteFile(lock, nil, 0o644))
				require.False(t, tx.publish(t).Complete())
			},
			effect: evidence.EffectNotApplied, reason: ReasonTombstoned, code: evidence.CodePublicationRefused,
		},
		{
			name: "stale fence lock", target: existing,
			fault: func(t *testing.T, repo *remoteRepo, tx *transaction) {
				lock := filepath.Join(repo.dir, "refs/harness/fence/run-1.lock")
				require.NoError(t, os.WriteFile(lock, nil, 0o644))
				require.False(t, tx.publish(t).Complete())
			},
			effect: evidence.EffectUnknown, reason: ReasonFenceStuck, code: evidence.CodeSettleUnknown,
		},
		{
			name: "one push delivered twice", target: existing,
			fault: func(t *testing.T, repo *remoteRepo, tx *transaction) {
				repo.onPush(func(next http.Handler, w http.ResponseWriter, req *http.Request) {
					body, err := io.ReadAll(req.Body)
					require.NoError(t, err)
					req.Body = io.NopCloser(bytes.NewReader(body))
					next.ServeHTTP(httptest.NewRecorder(), req.Clone(req.Context()))
					req.Body = io.NopCloser(bytes.NewReader(body))
					next.ServeHTTP(w, req)
				})
				require.False(t, tx.publish(t).Complete(), "the second delivery is refused")
				repo.pass()
			},
			effect: evidence.EffectConfirmed, reason: ReasonBranchHolds,
		},
		{
			name: "answer lost", target: existing,
			fault: func(t *testing.T, repo *remoteRepo, tx *transaction) {
				repo.onPush(func(next http.Handler, w http.ResponseWriter, req *http.Request) {
					next.ServeHTTP(httptest.NewRecorder(), req)
					hangUp(w)
				})
				answer := tx.publish(t)
				require.True(t, answer.Sent)
				require.Error(t, answer.Err)
				repo.pass()
			},
			effect: evidence.EffectConfirmed, reason: ReasonBranchHolds,
		},
		{
			name: "request lost", target: existing,
			fault: func(t *testing.T, repo *remoteRepo, tx *transaction) {
				repo.onPush(func(_ http.Handler, w http.ResponseWriter, _ *http.Request) { hangUp(w) })
				require.False(t, tx.publish(t).Complete())
				repo.pass()
			},
			effect: evidence.EffectNotApplied, reason: ReasonTombstoned, code: evidence.CodePublicationRefused,
		},
		{
			name: "200 with an empty body and nothing done", target: existing,
			fault: func(t *testing.T, repo *remoteRepo, tx *transaction) {
				repo.onPush(func(_ http.Handler, w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "application/x-git-receive-pack-result")
				})
				answer := tx.publish(t)
				require.False(t, answer.Complete())
				require.ErrorIs(t, answer.Err, io.ErrUnexpectedEOF)
				repo.pass()
			},
			effect: evidence.EffectNotApplied, reason: ReasonTombstoned, code: evidence.CodePublicationRefused,
		},
		{
			name: "200 with an empty body and all done", target: existing,
			fault: func(t *testing.T, repo *remoteRepo, tx *transaction) {
				repo.onPush(func(next http.Handler, w http.ResponseWriter, req *http.Request) {
					next.ServeHTTP(httptest.NewRecorder(), req)
					w.Header().Set("Content-Type", "application/x-git-receive-pack-result")
				})
				require.False(t, tx.publish(t).Complete())
				repo.pass()
			},
			effect: evidence.EffectConfirmed, reason: ReasonBranchHolds,
		},
		{
			name: "fence deleted by a third party before the push", target: existing,
			fault: func(t *testing.T, repo *remoteRepo, tx *transaction) {
				repo.git(repo.dir, "update-ref", "-d", "refs/harness/fence/run-1")
				require.False(t, tx.publish(t).Complete())
			},
			effect: evidence.EffectUnknown, reason: ReasonFenceAbsent, code: evidence.CodeSettleUnknown,
		},
		{
			name: "fence deleted by a third party after the push", target: existing,
			fault: func(t *testing.T, repo *remoteRepo, tx *transaction) {
				require.True(t, tx.publish(t).Complete())
				repo.git(repo.dir, "update-ref", "-d", "refs/harness/fence/run-1")
			},
			effect: evidence.EffectConfirmed, reason: ReasonBranchHolds,
		},
		{
			name: "fence set by a third party", target: existing,
			fault: func(t *testing.T, repo *remoteRepo, tx *transaction) {
				repo.git(repo.dir, "update-ref", "refs/harness/fence/run-1", repo.head)
				require.False(t, tx.publish(t).Complete())
			},
			effect: evidence.EffectUnknown, reason: ReasonFenceForeign, code: evidence.CodeFenceConflict,
		},
		{
			name: "new branch deleted after publication", target: fresh,
			fault: func(t *testing.T, repo *remoteRepo, tx *transaction) {
				require.True(t, tx.publish(t).Complete())
				repo.git(repo.dir, "update-ref", "-d", fresh)
			},
			effect: evidence.EffectPartial, reason: ReasonBranchUnmoved, code: evidence.CodePublicationPartial,
		},
		{
			name: "branch moved away after publication", target: existing,
			fault: func(t *testing.T, repo *remoteRepo, tx *transaction) {
				require.True(t, tx.publish(t).Complete())
				repo.commit("main", map[string]string{"c.txt": "forced over it\n"})
			},
			effect: evidence.EffectConfirmed, reason: ReasonDisplaced,
		},
		{
			name: "existing branch deleted after publication", target: existing,
			fault: func(t *testing.T, repo *remoteRepo, tx *transaction) {
				require.True(t, tx.publish(t).Complete())
				repo.git(repo.dir, "update-ref", "-d", main)
			},
			effect: evidence.EffectConfirmed, reason: ReasonDisplaced,
		},
		{
			name: "branch went on after publication", target: existing,
			fault: func(t *testing.T, repo *remoteRepo, tx *transaction) {
				require.True(t, tx.publish(t).Complete())
				repo.git(repo.work, "pull", "-q", repo.dir, "main")
				for i := range 5 {
					repo.commit("main", map[string]string{"c.txt": fmt.Sprint(i)})
				}
			},
			effect: evidence.EffectConfirmed, reason: ReasonBranchHolds,
		},
		{
			name: "branch merged the commit after publication", target: existing,
			fault: func(t *testing.T, repo *remoteRepo, tx *transaction) {
				require.True(t, tx.publish(t).Complete())
				repo.git(repo.work, "fetch", "-q", repo.dir, "main")
				repo.git(repo.work, "commit", "-q", "--allow-empty", "-m", "beside")
				repo.git(repo.work, "merge", "-q", "--no-ff", "-m", "merge", "FETCH_HEAD")
				repo.git(repo.work, "push", "-q", repo.dir, "HEAD:main")
			},
			effect: evidence.EffectConfirmed, reason: ReasonBranchHolds,
		},
		{
			name: "server refuses by a hook", target: existing,
			fault: func(t *testing.T, repo *remoteRepo, tx *transaction) {
				repo.hook("update", `case "$1" in refs/heads/*) echo "not today" >&2; exit 1;; esac`)
				answer := tx.publish(t)
				require.False(t, answer.Complete())
				require.Contains(t, answer.Fault().Error(), "not today")
				require.Equal(t, "hook declined", answer.Status[main])
			},
			effect: evidence.EffectNotApplied, reason: ReasonTombstoned, code: evidence.CodePublicationRefused,
		},
		{
			name: "remote silent", target: existing,
			fault: func(t *testing.T, repo *remoteRepo, tx *transaction) {
				require.True(t, tx.publish(t).Complete())
				repo.intercept(func(http.Handler) http.Handler {
					return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { hangUp(w) })
				})
			},
			effect: evidence.EffectUnknown, reason: ReasonRemoteSilent, code: evidence.CodeSettleUnknown,
		},
		{
			name: "credential refused", target: existing,
			fault: func(t *testing.T, repo *remoteRepo, tx *transaction) {
				require.True(t, tx.publish(t).Complete())
				repo.intercept(func(http.Handler) http.Handler {
					return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
				})
			},
			effect: evidence.EffectUnknown, reason: ReasonRemoteSilent, code: evidence.CodeSettleUnknown,
		},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			repo := project(t)
			tx := begin(t, repo, newStore(t), "run-1", row.target, change())
			row.fault(t, repo, tx)
			s := tx.settle(t)
			require.Equal(t, row.effect, s.Effect, "%+v", s)
			require.Equal(t, row.reason, s.Reason, "%+v", s)
			require.Equal(t, row.code, s.Code)
			require.Equal(t, row.reason == ReasonDisplaced, s.Displaced)
			again := tx.settle(t)
			require.Equal(t, []any{s.Effect, s.Reason, s.Code}, []any{again.Effect, again.Reason, again.Code}, "a second look decides the same")
			if s.Effect == evidence.EffectNotApplied {
				require.Equal(t, TombstoneValue("run-1", 2), repo.ref("refs/harness/fence/run-1"))
				require.False(t, tx.publish(t).Complete(), "nothing lands behind a tombstone")
			}
		})
	}
}

// publishHalf makes the server stop after the first of the two ref updates: the hook takes away the second ref's lock file,
// on which its update depends, when both are prepared.
func publishHalf(t *testing.T, repo *remoteRepo, tx *transaction, ref string) {
	t.Helper()
	repo.hook("reference-transaction", `test "$1" = prepared && rm -f "$GIT_DIR/`+ref+`.lock"; exit 0`)
	require.False(t, tx.publish(t).Complete())
	repo.unhook("reference-transaction")
	require.Equal(t, tx.intent.Commit, repo.ref("refs/harness/fence/run-1"))
	require.Equal(t, tx.intent.Old, repo.ref(ref))
}

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

// A36, A37: the push of a worker that was overtaken while the request was under way changes nothing.
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
