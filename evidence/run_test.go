package evidence_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
)

const runID = "01JRUN"

var start = time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.UTC)

func digestOf(c string) string { return "sha256:" + strings.Repeat(c, 64) }
func commitOf(c string) string { return strings.Repeat(c, 40) }

// step is one fact of a run in the making.
type step struct {
	epoch  int64
	stage  evidence.Stage
	source evidence.Source
	body   evidence.Body
}

// goodSteps is a run that ends with a confirmed commit.
func goodSteps() []step {
	observed := evidence.SourceObserved
	return []step{
		{0, evidence.StageEmit, observed, evidence.Emitted{
			Definition: "nightly", TriggerKeyDigest: digestOf("1"), OperationKey: "op-1", RequestDigest: digestOf("2"),
			ContractDigest: digestOf("3"), Profile: "codemod@1.0.0", ProfileDigest: digestOf("4"), Repository: "git.example/r",
			BaseRef: "refs/heads/main", TargetRef: "refs/heads/main", Baseline: commitOf("a"), Actor: evidence.ActorAgent,
			Refs: map[string]string{"ticket": "T-1"},
		}},
		{1, evidence.StageClaim, observed, evidence.Claimed{WorkerID: "w1", Owner: "w1/n", Engine: "e", TTLMillis: 30000}},
		{1, evidence.StageResolve, observed, evidence.Resolved{
			Profile: "codemod@1.0.0", ProfileDigest: digestOf("4"), Readiness: "ready",
			Pins: map[string]string{"rein": digestOf("5"), "sandbox": digestOf("6")},
		}},
		{1, evidence.StageAdmit, observed, evidence.Admitted{Outcome: "allowed", DecisionID: "d-1"}},
		{1, evidence.StagePreflight, observed, evidence.Started{At: evidence.FormatTime(start)}},
		{1, evidence.StagePreflight, observed, evidence.Preflighted{
			Capabilities: []string{"atomic", "report-status"}, Fencing: "fence", FenceRef: "refs/harness/fence/" + runID,
			FenceValue: commitOf("f"), BaseValue: commitOf("a"), TargetValue: commitOf("a"), Manifest: "found",
			ManifestDigest: digestOf("7"),
		}},
		{1, evidence.StageSandbox, observed, evidence.Sandboxed{
			ContainerID: "c1", Image: digestOf("8"), Runtime: "runc", Actor: evidence.ActorAgent, Reachability: "none",
			Declared: map[string]string{"network": "none"}, Observed: map[string]string{"network": "none"},
		}},
		{1, evidence.StageSession, evidence.SourceReported, evidence.SessionEnded{Rein: "gofumpt@1.0.0", OutputDigest: digestOf("9")}},
		{1, evidence.StageCapture, evidence.SourceReported, evidence.Captured{Entries: 3, Modified: 3, Digest: digestOf("a")}},
		{1, evidence.StageTeardown, observed, evidence.TornDown{ContainerGone: true, VolumesGone: true, TokensRevoked: 1, Quiesced: true}},
		{1, evidence.StageAccept, observed, evidence.Intended{
			Transaction: "tx-1", Commit: commitOf("c"), Tree: commitOf("d"), Baseline: commitOf("a"), BaseRef: "refs/heads/main",
			TargetRef: "refs/heads/main", Old: commitOf("a"), FenceRef: "refs/harness/fence/" + runID, FenceValue: commitOf("f"),
			PackDigest: digestOf("b"), PackBytes: 100, ChangedPaths: []string{"a.go", "b.go", "c.go"}, ChangedCount: 3,
		}},
		{1, evidence.StageAccept, observed, evidence.Published{
			Transaction: "tx-1", Answer: map[string]string{"refs/heads/main": "ok"}, Branch: commitOf("c"), Fence: commitOf("c"),
			Lease: "held", ReadBack: true,
		}},
		{1, evidence.StageClose, observed, evidence.Closed{
			State: evidence.StateCompleted, Effect: evidence.EffectConfirmed, Stage: evidence.StageClose,
			Disposition: evidence.OutcomeCompleted,
		}},
	}
}

// without leaves out the steps with a body of the given kind.
func without(steps []step, kind evidence.Kind) []step {
	var out []step
	for _, s := range steps {
		if s.body.Kind() != kind {
			out = append(out, s)
		}
	}
	return out
}

// record appends steps to a new chain, a second apart, until one is refused.
func record(steps []step) (*evidence.Chain, error) {
	c := evidence.NewChain(runID)
	for i, s := range steps {
		if _, err := c.Append(start.Add(time.Duration(i)*time.Second), s.epoch, s.stage, s.source, s.body); err != nil {
			return c, err
		}
	}
	return c, nil
}

func goodFacts(t testing.TB) []evidence.Fact {
	t.Helper()
	c, err := record(goodSteps())
	require.NoError(t, err)
	return c.Facts()
}
