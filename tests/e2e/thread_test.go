package e2e_test

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness"
	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/tests/deployment"
)

// logTo sends a harness's log to the test's own.
func logTo(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelInfo}))
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSuffix(string(p), "\n"))
	return len(p), nil
}

// stages are the beginnings and ends of a run's stages, in their order.
type stages struct {
	mu   sync.Mutex
	seen []harness.Progress
}

func (s *stages) note(p harness.Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, harness.Progress{Stage: p.Stage, Done: p.Done})
}

// require requires that one stage has ended before another began.
func (s *stages) require(t testing.TB, first, then evidence.Stage, why string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	ended := slices.Index(s.seen, harness.Progress{Stage: first, Done: true})
	begun := slices.Index(s.seen, harness.Progress{Stage: then})
	require.True(t, ended >= 0 && ended < begun, "%s: %v", why, s.seen)
}

// A1, A20, A22, A26, A35: one governed run goes through every stage, lands one commit, and its evidence verifies.
func TestGovernedRunLandsOneVerifiedCommit(t *testing.T) {
	t.Parallel()
	d := deployment.New(t, deployment.Settings{})
	var steps stages
	h := d.Open(t, harness.Options{Logger: logTo(t), Watch: steps.note})
	repo := d.Stack.Repository(t, "thread", map[string]string{
		".harness.yaml": deployment.Manifest, "a.go": "package a\n\nfunc  f() {\n\n}\n", "b.txt": "as it is\n",
	})
	ref := d.Publish(t, h, d.Profile(t, "gofumpt", "codemod", "/usr/local/bin/gofumpt", "-l", "-w", "."), repo)

	run := deployment.Finish(t, h, deployment.Request("first", ref, repo))

	steps.require(t, evidence.StageTeardown, evidence.StageAccept, "the session is torn down before the acceptance begins")
	require.Equal(t, evidence.StateCompleted, run.State, "%s %s", run.FailedStage, run.Code)
	require.Equal(t, evidence.EffectConfirmed, run.Effect)
	require.Len(t, repo.Log(t, "refs/heads/main"), 2)
	tip := repo.Ref(t, "refs/heads/main")
	require.Equal(t, "package a\n\nfunc f() {\n}\n", repo.File(t, tip, "a.go"))
	deployment.Verify(t, h, run.ID)
}
