package e2e_test

import (
	"log/slog"
	"strings"
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

// A1, A20, A22, A35: one governed run goes through every stage, lands one commit, and its evidence verifies.
func TestGovernedRunLandsOneVerifiedCommit(t *testing.T) {
	t.Parallel()
	d := deployment.New(t, deployment.Settings{})
	h := d.Open(t, harness.Options{Logger: logTo(t)})
	repo := d.Stack.Repository(t, "thread", map[string]string{
		".harness.yaml": deployment.Manifest, "a.go": "package a\n\nfunc  f() {\n\n}\n", "b.txt": "as it is\n",
	})
	ref := d.Publish(t, h, d.Profile(t, "gofumpt", "codemod", "/usr/local/bin/gofumpt", "-l", "-w", "."), repo)

	run := deployment.Finish(t, h, deployment.Request("first", ref, repo))

	require.Equal(t, evidence.StateCompleted, run.State, "%s %s", run.FailedStage, run.Code)
	require.Equal(t, evidence.EffectConfirmed, run.Effect)
	require.Len(t, repo.Log(t, "refs/heads/main"), 2)
	tip := repo.Ref(t, "refs/heads/main")
	require.Equal(t, "package a\n\nfunc f() {\n}\n", repo.File(t, tip, "a.go"))
	deployment.Verify(t, h, run.ID)
}
