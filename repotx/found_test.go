package repotx

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
)

// A44, A51: a run whose record is lost is settled by what names it at the remote. Its fence decides as if the intent were known; a commit
// that is on the branch alone is left to an operator; and what names another run or profile is none of it.
func TestSettlingARunWhoseRecordIsLost(t *testing.T) {
	t.Parallel()
	profile := "sha256:" + strings.Repeat("0", 64)
	published := func(t *testing.T, _ *remoteRepo, tx *transaction) { require.True(t, tx.publish(t).Complete()) }
	rows := []struct {
		name    string
		target  string
		fault   func(t *testing.T, repo *remoteRepo, tx *transaction)
		profile string
		set     bool // back: the database was
		effect  evidence.Effect
		reason  Reason
		found   bool
	}{
		{name: "published", target: main, fault: published, set: true, effect: evidence.EffectConfirmed, reason: ReasonBranchHolds, found: true},
		{name: "published, and emitted anew", target: main, fault: published, effect: evidence.EffectConfirmed, reason: ReasonBranchHolds, found: true},
		{name: "published on a new branch", target: "refs/heads/new", fault: published, set: true, effect: evidence.EffectConfirmed, reason: ReasonBranchHolds, found: true},
		{name: "the branch went on", target: main, fault: func(t *testing.T, repo *remoteRepo, tx *transaction) {
			published(t, repo, tx)
			repo.git(repo.work, "pull", "-q", repo.dir, "main")
			repo.commit("main", map[string]string{"c.txt": "third party\n"})
		}, set: true, effect: evidence.EffectConfirmed, reason: ReasonBranchHolds, found: true},
		{name: "the branch was set back", target: main, fault: func(t *testing.T, repo *remoteRepo, tx *transaction) {
			published(t, repo, tx)
			repo.git(repo.dir, "update-ref", main, tx.intent.Base)
		}, set: true, effect: evidence.EffectPartial, reason: ReasonBranchUnmoved, found: true},
		{name: "its fence is gone", target: main, fault: func(t *testing.T, repo *remoteRepo, tx *transaction) {
			published(t, repo, tx)
			repo.git(repo.dir, "update-ref", "-d", "refs/harness/fence/run-1")
		}, set: true, effect: evidence.EffectUnknown, reason: ReasonRecordLost, found: true},
		{name: "not published", target: main, fault: func(*testing.T, *remoteRepo, *transaction) {}, set: true, effect: evidence.EffectNotApplied, reason: ReasonTombstoned},
		{
			name: "published under another profile", target: main, fault: published, profile: "sha256:" + strings.Repeat("1", 64), set: true,
			effect: evidence.EffectUnknown, reason: ReasonFenceForeign,
		},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			repo := project(t)
			tx := begin(t, repo, newStore(t), "run-1", row.target, change())
			row.fault(t, repo, tx)
			in := SettleInput{
				Run: "run-1", Epoch: 1 << 20, TargetRef: row.target, BaseRef: main, Profile: profile, Baseline: tx.intent.Base, RecordLost: row.set,
			}
			if row.profile != "" {
				in.Profile = row.profile
			}
			s, err := tx.remote.Settle(context.Background(), in)
			require.NoError(t, err)
			require.Equal(t, row.effect, s.Effect, "%+v", s)
			require.Equal(t, row.reason, s.Reason)
			require.Equal(t, row.found, s.Found != nil)
			if s.Found == nil {
				return
			}
			require.Equal(t, tx.intent.Commit, s.Found.Commit)
			require.Equal(t, tx.intent.Base, s.Found.Parent)
			require.Equal(t, tx.intent.Transaction, s.Found.Transaction)
			require.Equal(t, tx.commit.Tree, s.Found.Tree)
			require.Equal(t, row.reason != ReasonRecordLost, s.Found.Fenced)
		})
	}
}
