package queue_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/queue"
	"github.com/rein-aharness/harness/repotx"
	"github.com/rein-aharness/harness/tests/stack"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func digestOf(c string) string { return "sha256:" + strings.Repeat(c, 64) }
func commitOf(c string) string { return strings.Repeat(c, 40) }

// database makes a migrated database for one test.
func database(t testing.TB) string {
	t.Helper()
	return stack.Load(t).DatabaseFrom(t, "queue", queue.Migrate)
}

// open opens a store on a database with a short lease; change may adjust it.
func open(t testing.TB, url string, change ...func(*queue.Config)) *queue.Store {
	t.Helper()
	config := queue.Config{URL: url, TTL: 6 * time.Second, Beat: 500 * time.Millisecond, Margin: 500 * time.Millisecond}
	for _, c := range change {
		c(&config)
	}
	s, err := queue.Open(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

func newStore(t *testing.T, change ...func(*queue.Config)) *queue.Store {
	t.Helper()
	return open(t, database(t), change...)
}

// short makes leases expire soon.
func short(c *queue.Config) {
	c.TTL, c.Beat, c.Margin = time.Second, 200*time.Millisecond, 200*time.Millisecond
}

// sql runs a statement behind the store's back.
func sql(t *testing.T, s *queue.Store, statement string, args ...any) {
	t.Helper()
	_, err := s.Pool().Exec(t.Context(), statement, args...)
	require.NoError(t, err)
}

func scalar[T any](t *testing.T, s *queue.Store, query string, args ...any) T {
	t.Helper()
	rows, err := s.Pool().Query(t.Context(), query, args...)
	require.NoError(t, err)
	v, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	require.NoError(t, err)
	return v
}

func request(key string) queue.Request {
	return queue.Request{
		Version: 1, Definition: "nightly", TriggerKey: key, Repository: "https://git.example/team/" + key,
		BaseRef: "refs/heads/main", TargetRef: "refs/heads/main", Task: "format the code",
		Profile: "codemod@1.0.0#" + digestOf("1"), Grant: repotx.Bounds{Paths: []string{"**/*.go"}},
		Refs: map[string]string{"ticket": "T-1"},
	}
}

func pins(r queue.Request) func(context.Context) (queue.Pins, error) {
	return func(context.Context) (queue.Pins, error) {
		repository, err := repotx.Canonical(r.Repository)
		return queue.Pins{
			Repository: repository.ID, Baseline: commitOf("a"), Profile: digestOf("1"), Rein: digestOf("2"), Model: digestOf("3"),
			Tools: digestOf("4"), Sandbox: digestOf("5"), Credentials: digestOf("6"),
		}, err
	}
}

func emit(t testing.TB, s *queue.Store, r queue.Request) queue.Run {
	t.Helper()
	run, created, err := s.Emit(t.Context(), r, queue.Emission{Pin: pins(r)})
	require.NoError(t, err)
	require.True(t, created)
	return run
}

func claimant(id string) queue.Claimant {
	return queue.Claimant{WorkerID: id, Nonce: "n1", Engine: "engine"}
}

func claim(t *testing.T, s *queue.Store, run queue.Run) *queue.Lease {
	t.Helper()
	lease, err := s.Claim(t.Context(), run.ID, claimant("w1"))
	require.NoError(t, err)
	return lease
}

type recorder interface {
	Record(stage evidence.Stage, source evidence.Source, body evidence.Body) error
}

func record(t require.TestingT, l recorder, stage evidence.Stage, body evidence.Body) {
	require.NoError(t, l.Record(stage, evidence.SourceObserved, body))
}

// start brings a claimed run to where side effects may begin.
func start(t require.TestingT, ctx context.Context, l *queue.Lease) {
	record(t, l, evidence.StageResolve, evidence.Resolved{Profile: "codemod@1.0.0", ProfileDigest: digestOf("1"), Readiness: "ready"})
	record(t, l, evidence.StageAdmit, evidence.Admitted{Outcome: "allowed", DecisionID: "d-1"})
	require.NoError(t, l.Start(ctx))
}

// intend brings a started run to its stored intent.
func intend(t require.TestingT, ctx context.Context, l *queue.Lease) queue.Intent {
	record(t, l, evidence.StagePreflight, evidence.Preflighted{Fencing: "fence", Manifest: "found"})
	record(t, l, evidence.StageSandbox, evidence.Sandboxed{ContainerID: "c1", Actor: evidence.ActorAgent, Reachability: "none"})
	record(t, l, evidence.StageSession, evidence.SessionEnded{Rein: "gofumpt@1.0.0"})
	record(t, l, evidence.StageCapture, evidence.Captured{Entries: 1, Modified: 1, Digest: digestOf("a")})
	record(t, l, evidence.StageTeardown, evidence.TornDown{ContainerGone: true, VolumesGone: true, Quiesced: true})
	intent := intentOf(l.Run())
	record(t, l, evidence.StageAccept, evidence.Intended{
		Transaction: intent.TransactionID, Commit: intent.Commit, Tree: commitOf("d"), Baseline: commitOf("a"),
		BaseRef: intent.BaseRef, TargetRef: intent.TargetRef, Old: intent.Old, FenceRef: intent.FenceRef, FenceValue: intent.FenceValue,
		PackDigest: intent.PackDigest, PackBytes: int64(len(intent.Pack)), ChangedPaths: []string{"a.go"}, ChangedCount: 1, Insertions: 3,
	})
	require.NoError(t, l.SaveIntent(ctx, intent))
	return intent
}

func intentOf(r queue.Run) queue.Intent {
	return queue.Intent{
		TransactionID: "tx-" + r.ID, TargetRef: r.TargetRef, Old: commitOf("a"), BaseRef: r.BaseRef, BaseCommit: commitOf("a"),
		Commit: commitOf("c"), FenceRef: "refs/harness/fence/" + r.ID, FenceValue: commitOf("f"), Pack: []byte("PACK"),
		PackDigest: digestOf("b"),
	}
}

func published(t require.TestingT, l *queue.Lease) {
	record(t, l, evidence.StageAccept, evidence.Published{
		Transaction: "tx-" + l.Run().ID, Branch: commitOf("c"), Fence: commitOf("c"), Lease: "held", ReadBack: true,
	})
}

func completed() queue.Closing {
	return queue.Closing{
		State: evidence.StateCompleted, Effect: evidence.EffectConfirmed, Stage: evidence.StageClose,
		Disposition: evidence.OutcomeCompleted, Fence: commitOf("c"), Sign: signed,
	}
}

func failed(effect evidence.Effect, code evidence.Code) queue.Closing {
	return queue.Closing{
		State: evidence.StateFailed, Effect: effect, Stage: evidence.StageSession, Code: code,
		Disposition: evidence.OutcomeFailed, Subject: "limit", Sign: signed,
	}
}

func signed([]evidence.Fact) ([]byte, error) { return []byte("signed"), nil }

// complete works a claimed run through to its end.
func complete(t require.TestingT, ctx context.Context, l *queue.Lease) {
	start(t, ctx, l)
	intend(t, ctx, l)
	published(t, l)
	require.NoError(t, l.Close(ctx, completed()))
}
