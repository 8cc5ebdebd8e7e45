package deployment

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness"
	"github.com/rein-aharness/harness/profiles"
)

// Forge changes the deployment's database behind everybody's back: as its superuser, with triggers and foreign keys out of force.
// It must change exactly one row.
func (d *Deployment) Forge(t testing.TB, statement string, arguments ...any) {
	t.Helper()
	url, err := d.Config.Database.URL()
	require.NoError(t, err)
	// Also after the test's context has ended, from a callback of the run.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	connection, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	defer connection.Close(ctx)
	_, err = connection.Exec(ctx, `SET session_replication_role = replica`)
	require.NoError(t, err)
	tag, err := connection.Exec(ctx, statement, arguments...)
	require.NoError(t, err)
	require.EqualValues(t, 1, tag.RowsAffected(), "%s", statement)
}

// Vouch publishes a profile and records it as ready without a check, for tests of what comes after.
func (d *Deployment) Vouch(t testing.TB, h *harness.Harness, p *profiles.Profile) profiles.Ref {
	t.Helper()
	ref, _, err := h.Profiles().Publish(t.Context(), p, "test")
	require.NoError(t, err)
	now := time.Now()
	require.NoError(t, h.Profiles().SetReadiness(t.Context(), profiles.Readiness{
		Engine: d.Config.Engine.Name, Digest: ref.Digest, State: profiles.StateReady, Reason: "vouched for by the test",
		CheckedAt: now, ExpiresAt: now.Add(time.Hour), Links: []profiles.Link{{Name: "test", OK: true}},
	}))
	return ref
}

// Serve works on the deployment's queue in this process, until stop is called or the test ends.
func Serve(t testing.TB, h *harness.Harness) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- h.Work(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		require.NoError(t, <-served)
	}
	t.Cleanup(stop)
	return stop
}
