package repotx

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
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

// A37, A40, A41, B28, B29, CASES 30, 35: one test per row of the settling rules, each against stock git.
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
	require.Equal(t, tx.intent.Commit, repo.ref("refs/harness/fence/run-1"), "the fence moves before the branch")
	require.Equal(t, tx.intent.Old, repo.ref(ref))
}
