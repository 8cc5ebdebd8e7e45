package pins_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness"
	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/queue"
	"github.com/rein-aharness/harness/tests/deployment"
)

// rename renames a table, so that reading it fails as an outage of that read alone would.
func (p *place) rename(t testing.TB, from, to string) {
	t.Helper()
	url, err := p.Config.Database.URL()
	require.NoError(t, err)
	ctx := context.WithoutCancel(t.Context())
	connection, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	defer connection.Close(ctx)
	_, err = connection.Exec(ctx, "ALTER TABLE "+from+" RENAME TO "+to)
	require.NoError(t, err)
}

// withoutReadiness executes a run from whose acceptance on the record of readiness cannot be read; it can again after a time, if
// there is one.
func withoutReadiness(t *testing.T, back time.Duration) (*place, queue.Run) {
	t.Helper()
	watching := &watcher{steps: map[harness.Progress]func(){}}
	p := open(t, deployment.Settings{TTLSeconds: 6, HeartbeatSeconds: 1}, harness.Options{Watch: watching.watch})
	run := p.emit(t, "recheck", p.format(t, "recheck"))
	restored := make(chan struct{})
	watching.on(run.ID, harness.Progress{Stage: evidence.StageAccept}, func() {
		p.rename(t, "profile_readiness", "profile_readiness_away")
		if back == 0 {
			close(restored)
			return
		}
		go func() {
			defer close(restored)
			time.Sleep(back)
			p.rename(t, "profile_readiness_away", "profile_readiness")
		}()
	})
	stop := deployment.Serve(t, p.h)
	run = p.wait(t, run)
	stop()
	<-restored
	return p, run
}

// A43: while a worker owns a run, a read that the database does not answer is repeated, and the run lands.
func TestRecheckThatTheDatabaseDoesNotAnswerIsRepeated(t *testing.T) {
	t.Parallel()
	p, run := withoutReadiness(t, 2*time.Second)
	require.Equal(t, evidence.StateCompleted, run.State, "%s", run.Code)
	require.Equal(t, evidence.EffectConfirmed, run.Effect)
	deployment.Verify(t, p.h, run.ID)
}

// A43, A44: one that stays unanswered for as long as a lease lasts refuses the acceptance, and nothing is published.
func TestRecheckThatStaysUnansweredPublishesNothing(t *testing.T) {
	t.Parallel()
	p, run := withoutReadiness(t, 0)
	require.Equal(t, evidence.StateFailed, run.State)
	require.Equal(t, evidence.CodeStoreFailed, run.Code)
	require.Equal(t, evidence.StageAccept, run.FailedStage)
	require.Equal(t, evidence.EffectNotApplied, run.Effect)
	require.NotContains(t, p.repo.Refs(t), run.TargetRef)
	deployment.Verify(t, p.h, run.ID)
}
