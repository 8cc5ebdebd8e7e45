package e2e_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness"
	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/profiles"
	"github.com/rein-aharness/harness/queue"
	"github.com/rein-aharness/harness/tests/deployment"
)

// A13, A33: a person who watches a run does without the repository's manifest, visibly, but not where the profile requires one.
func TestAttendedRunWaivesTheManifestOnlyWhereTheProfileLetsIt(t *testing.T) {
	t.Parallel()
	d := deployment.New(t, deployment.Settings{})
	h := d.Open(t, harness.Options{Logger: logTo(t)})
	repo := d.Stack.Repository(t, "attended", map[string]string{"a.go": "package a\n\nfunc  f() {}\n"})
	attend := func(name string, required ...profiles.Control) queue.Run {
		p := d.Profile(t, name, "codemod", "/usr/local/bin/gofumpt", "-w", ".")
		p.Controls.Required = required
		request := deployment.Request(name, d.Publish(t, h, p, repo), repo)
		request.Attended, request.Operator = true, "ada"
		run, _, err := h.Emit(t.Context(), request, "attended-"+name)
		require.NoError(t, err)
		run, err = h.Attend(t.Context(), run)
		require.NoError(t, err)
		return run
	}

	refused := attend("required", profiles.ControlManifest)
	require.Equal(t, evidence.CodeManifestMissing, refused.Code)
	require.Equal(t, repo.Baseline, repo.Ref(t, "refs/heads/main"))

	waived := attend("waivable")
	require.Equal(t, evidence.StateCompleted, waived.State, "%s %s", waived.FailedStage, waived.Code)
	facts, err := h.Store().Facts(t.Context(), waived.ID)
	require.NoError(t, err)
	seen, found, err := evidence.Last[evidence.Preflighted](facts)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, "waived", seen.Manifest)
}
