package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
)

// A5, A26: what matters first of each kind of fact is in its one line.
func TestEveryKindOfFactHasALine(t *testing.T) {
	t.Parallel()
	seen := map[evidence.Kind]bool{}
	for _, c := range []struct {
		body evidence.Body
		want string
	}{
		{
			evidence.Emitted{Definition: "fmt", Repository: "host/r", BaseRef: "refs/heads/main", Baseline: "0123456789abcdef", TargetRef: "refs/heads/x"},
			"fmt on host/r, refs/heads/main at 0123456789ab to refs/heads/x",
		},
		{evidence.Claimed{Owner: "w/1", Engine: "e"}, "by w/1 on engine e"},
		{evidence.Resolved{Profile: "p@1.0.0", Readiness: "ready"}, "p@1.0.0 is ready"},
		{evidence.Resolved{Profile: "p@1.0.0", Readiness: "unverified", Proof: true}, "p@1.0.0 is unverified; this run is a labelled proof"},
		{evidence.Admitted{Outcome: "blocked", Reasons: []string{"a", "b"}}, "blocked: a, b"},
		{evidence.Started{At: "x"}, ""},
		{evidence.Preflighted{Fencing: "waived", Manifest: "found", PublishRoute: "r@1.0.0"}, "fencing: waived, manifest: found, published with r@1.0.0"},
		{
			evidence.Sandboxed{Image: "sha256:0123456789abcdef", Runtime: "runsc", NotEnforced: []string{"pids"}},
			"0123456789ab under runsc, 0 properties observed, not enforced: pids",
		},
		{
			evidence.SessionEnded{Rein: "r@1.0.0", ExitCode: 137, Signal: "killed", DurationMillis: 1500, OutputBytes: 9, OutputTruncated: true},
			"r@1.0.0 exit code 137 after 1.5s, 9 bytes of output, signal killed, cut",
		},
		{evidence.Captured{Added: 1, Modified: 2, Deleted: 3, Ignored: 4}, "1 added, 2 modified, 3 deleted, 4 ignored"},
		{evidence.TornDown{ContainerGone: true, VolumesGone: true, TokensRevoked: 2}, "nothing is left, 2 tokens revoked"},
		{
			evidence.TornDown{TokensLeft: 1},
			"the container was not seen to be gone, volumes were not seen to be gone, 1 tokens are left",
		},
		{
			evidence.Intended{Commit: "abc", TargetRef: "refs/heads/x", ChangedCount: 3, Insertions: 2, Deletions: 1},
			"commit abc on refs/heads/x, 3 files, 2 insertions, 1 deletions",
		},
		{evidence.Published{ReadBack: true, Lease: "held"}, "read back, lease held"},
		{evidence.Published{Lease: "expired_unclaimed"}, "not read back, lease expired_unclaimed"},
		{evidence.Found{By: "fence", Commit: "abc"}, "commit abc names the run, by the fence; its record is lost"},
		{evidence.Settled{Effect: evidence.EffectNotApplied, Reason: "tombstoned", By: "reconciler"}, "not_applied, tombstoned, by reconciler"},
		{evidence.Cancelled{By: "ada", Reason: "wrong branch"}, "by ada: wrong branch"},
		{evidence.Closed{State: evidence.StateFailed, Effect: evidence.EffectNotApplied}, "failed, effect not_applied"},
		{evidence.Failed{Stage: evidence.StageAccept, Code: evidence.CodeBaselineMoved}, "baseline_moved in accept"},
	} {
		seen[c.body.Kind()] = true
		require.Equal(t, c.want, detailOfBody(c.body), "%T", c.body)
	}
	for _, kind := range evidence.Kinds() {
		require.True(t, seen[kind], "%s has no line", kind)
	}
}

func TestALineSaysWhereItsFactComesFrom(t *testing.T) {
	t.Parallel()
	chain := evidence.NewChain("01a22928-3ea9-7e17-88bd-49c515b04106")
	fact, err := chain.Append(time.Unix(0, 0), 0, evidence.StageEmit, evidence.SourceDeclared, evidence.Emitted{Actor: evidence.ActorAgent, Definition: "fmt"})
	require.NoError(t, err)
	text, err := summary(fact)
	require.NoError(t, err)
	require.Contains(t, text, "emitted: fmt on ")
	require.Contains(t, text, " (declared)")
}
