package e2e_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness"
	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/profiles"
	"github.com/rein-aharness/harness/queue"
	"github.com/rein-aharness/harness/queue/schedule"
	"github.com/rein-aharness/harness/tests/deployment"
	"github.com/rein-aharness/harness/tests/stack"
)

// A15, A47: a worker emits what a schedule has due, on the base ref as it is then, and follows a failure as often as the definition
// says and no more.
func TestWorkerKeepsSchedulesAndFollowsFailuresByPolicy(t *testing.T) {
	t.Parallel()
	d := deployment.New(t, deployment.Settings{})
	h := d.Open(t, harness.Options{Logger: logTo(t)})
	repository := func(name string) stack.RemoteRepo {
		return d.Stack.Repository(t, name, map[string]string{".harness.yaml": deployment.Manifest, "a.go": "package a\n\nfunc  f() {}\n"})
	}
	good, bad := repository("scheduled"), repository("failing")
	define := func(name string, ref profiles.Ref, repo stack.RemoteRepo) queue.Definition {
		r := deployment.Request(name, ref, repo)
		return queue.Definition{
			Version: 1, Name: name, Repository: r.Repository, BaseRef: r.BaseRef, TargetRef: r.TargetRef, Task: r.Task, Profile: r.Profile,
			Grant: r.Grant, Concurrency: 1, Schedule: &schedule.Spec{Every: "24h"}, Attempts: &queue.Attempts{Max: 2, Backoff: "0s"},
		}
	}
	_, err := h.Store().Apply(t.Context(), "ada",
		define("good", d.Vouch(t, h, d.Profile(t, "gofumpt", "codemod", "/usr/local/bin/gofumpt", "-w", ".")), good),
		define("bad", d.Vouch(t, h, d.Profile(t, "failing", "codemod", "/usr/local/bin/gofumpt", "--no-such-flag")), bad))
	require.NoError(t, err)
	for _, name := range []string{"good", "bad"} {
		d.Forge(t, `UPDATE definition SET decided_to = decided_to - interval '1 day', next_due = clock_timestamp() WHERE name = $1`, name)
	}
	ticks := func(name string) []queue.PastTick {
		list, err := h.Store().Ticks(t.Context(), name, 10)
		require.NoError(t, err)
		return list
	}
	over := func(name string, attempts int) bool {
		list := ticks(name)
		return len(list) == attempts && list[0].State == queue.TickEnded
	}
	stop := deployment.Serve(t, h)
	require.Eventually(t, func() bool { return over("good", 1) && over("bad", 2) }, 2*time.Minute, 200*time.Millisecond)
	stop()

	landed := ticks("good")[0]
	require.Equal(t, evidence.EffectConfirmed, landed.Effect)
	require.Len(t, good.Log(t, "refs/heads/main"), 2)
	deployment.Verify(t, h, landed.Run)
	second, first := ticks("bad")[0], ticks("bad")[1]
	require.Equal(t, first.Run, second.Supersedes)
	require.NotEqual(t, first.Run, second.Run)
	require.Equal(t, evidence.CodeSessionFailed, second.RunCode)
	require.Equal(t, bad.Baseline, bad.Ref(t, "refs/heads/main"))
	deployment.Verify(t, h, second.Run)
}
