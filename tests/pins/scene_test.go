package pins_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness"
	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/profiles"
	"github.com/rein-aharness/harness/queue"
	"github.com/rein-aharness/harness/tests/deployment"
	"github.com/rein-aharness/harness/tests/stack"
)

const trunk = "refs/heads/main"

// place is a deployment with one repository, and an engine that is listened to.
type place struct {
	*deployment.Deployment
	h      *harness.Harness
	engine *deployment.EngineEvents
	repo   stack.RemoteRepo
}

func open(t testing.TB, s deployment.Settings, options harness.Options) *place {
	t.Helper()
	d := deployment.New(t, s)
	return &place{
		Deployment: d, h: d.Open(t, options), engine: deployment.WatchEngine(t, d.Stack), repo: d.Stack.Repository(t, "place", files),
	}
}

// format is a profile that formats a.go, published and vouched for.
func (p *place) format(t testing.TB, name string, edit ...func(*profiles.Profile)) profiles.Ref {
	t.Helper()
	profile := p.Profile(t, name, "codemod", gofumpt...)
	for _, e := range edit {
		e(profile)
	}
	return p.Vouch(t, p.h, profile)
}

// emit emits a run with a profile on a branch of its own, named for the trigger key.
func (p *place) emit(t testing.TB, trigger string, ref profiles.Ref, edit ...func(*queue.Request)) queue.Run {
	t.Helper()
	request := deployment.Request(trigger, ref, p.repo)
	request.TargetRef = "refs/heads/" + strings.ReplaceAll(trigger, " ", "-")
	for _, e := range edit {
		e(&request)
	}
	run, _, err := p.h.Emit(t.Context(), request, "")
	require.NoError(t, err)
	return run
}

func (p *place) wait(t testing.TB, run queue.Run) queue.Run {
	t.Helper()
	run, err := p.h.Wait(t.Context(), run.ID)
	require.NoError(t, err)
	return run
}

// facts are a run's facts of one kind; there must be one.
func fact[T evidence.Body](t testing.TB, h *harness.Harness, run queue.Run) T {
	t.Helper()
	facts, err := h.Store().Facts(t.Context(), run.ID)
	require.NoError(t, err)
	body, found, err := evidence.Last[T](facts)
	require.NoError(t, err)
	require.True(t, found, "%T", body)
	return body
}

// count asks the deployment's database for a number.
func (p *place) count(t testing.TB, query string, arguments ...any) int {
	t.Helper()
	url, err := p.Config.Database.URL()
	require.NoError(t, err)
	connection, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer connection.Close(context.WithoutCancel(t.Context()))
	var n int
	require.NoError(t, connection.QueryRow(t.Context(), query, arguments...).Scan(&n))
	return n
}

// refused requires that a run ended as a refusal with a code, that no container was created for it, and that the remote has
// nothing of it.
func (p *place) refused(t testing.TB, run queue.Run, code evidence.Code) {
	t.Helper()
	require.Equal(t, evidence.StateFailed, run.State)
	require.Equal(t, code, run.Code, "%s", run.FailedStage)
	require.Equal(t, evidence.OutcomeRefused, run.Disposition)
	require.Equal(t, evidence.EffectNotDispatched, run.Effect)
	require.Zero(t, p.engine.Created(t, run.ID), "sandboxes")
	for ref := range p.repo.Refs(t) {
		require.NotContains(t, ref, run.ID)
		require.NotEqual(t, run.TargetRef, ref)
	}
	deployment.Verify(t, p.h, run.ID)
}
