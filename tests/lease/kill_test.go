package lease_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/tests/deployment"
)

// A25, A30, A37, B32, CASES 1, 15: a worker that is killed in the session takes its sandbox with it, and another settles its run.
func TestAKilledWorkersSandboxIsGoneAndItsRunSettled(t *testing.T) {
	t.Parallel()
	s := set(t, slowly(time.Minute))
	run := s.emit(t, "killed in the session")
	worker := s.Worker(t, "first", deployment.WorkerSettings{})
	s.inSession(t, run.ID)

	worker.Kill(t)
	killed := time.Now()
	s.Worker(t, "second", deployment.WorkerSettings{})
	eventually(t, 5*time.Second-time.Since(killed), func() bool { return len(s.containers(t, run.ID)) == 0 })
	run = s.final(t, run.ID, ttl+10*time.Second-time.Since(killed))

	s.settled(t, run, evidence.StateFailed, evidence.EffectNotApplied)
	require.Equal(t, evidence.CodeWorkerLost, run.Code)
	require.Equal(t, int64(2), run.Epoch)
	require.Empty(t, s.asked(t, main))
}

// A16, CASES 9: a worker that comes back under its old name owns nothing of what it was: the run is settled in an epoch of its own,
// and its session is not taken up.
func TestAWorkerRestartedUnderItsNameSettlesWhatItLeft(t *testing.T) {
	t.Parallel()
	s := set(t, slowly(time.Minute))
	run := s.emit(t, "restarted")
	first := s.Worker(t, "same", deployment.WorkerSettings{})
	s.inSession(t, run.ID)
	before := s.run(t, run.ID)

	first.Kill(t)
	s.Worker(t, "same", deployment.WorkerSettings{})
	run = s.final(t, run.ID, within)

	s.settled(t, run, evidence.StateFailed, evidence.EffectNotApplied)
	require.Equal(t, before.WorkerID, run.WorkerID)
	require.NotEqual(t, before.Owner, run.Owner)
	require.Greater(t, run.Epoch, before.Epoch)
}

// A25, A30, A37, A40, A44, B32: wherever between two steps a worker is killed, its run ends with the effect that the remote shows,
// with one commit at most, and with its evidence whole; no sandbox and no token is left.
func TestARunWhoseWorkerIsKilledBetweenTwoStepsEndsRight(t *testing.T) {
	t.Parallel()
	const (
		again     = "again"     // it had not started: another worker executes it
		settled   = "settled"   // it had, and nothing has reached the branch
		confirmed = "confirmed" // the commit is on the branch
	)
	for point, end := range map[string]string{
		"claim.before": again, "claim.after": again, "resolve.before": again, "admit.before": again, "preflight.before": again,
		"preflight.started": settled, "sandbox.before": settled, "session.before": settled, "capture.before": settled,
		"teardown.before": settled, "accept.before": settled, "accept.before_intent": settled, "accept.after_intent": settled,
		"accept.before_send": settled,
		"accept.after_send":  confirmed, "accept.after": confirmed, "close.before": confirmed, "close.after_sign": confirmed,
		"close.after": confirmed,
	} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			s := set(t, change())
			run := s.emit(t, point)
			killed := s.Worker(t, "killed", deployment.WorkerSettings{Failpoints: point + "=kill"})
			require.Equal(t, -1, killed.Ended(t, within), killed.Output())
			s.Worker(t, "second", deployment.WorkerSettings{})
			run = s.final(t, run.ID, within)

			switch end {
			case settled:
				s.settled(t, run, evidence.StateFailed, evidence.EffectNotApplied)
				require.Equal(t, evidence.CodeWorkerLost, run.Code)
			default:
				s.settled(t, run, evidence.StateCompleted, evidence.EffectConfirmed)
			}
			facts, err := s.h.Store().Facts(t.Context(), run.ID)
			require.NoError(t, err)
			_, intended, err := evidence.Last[evidence.Intended](facts)
			require.NoError(t, err)
			stored, found, err := s.h.Store().Intent(t.Context(), run.ID)
			require.NoError(t, err)
			require.Equal(t, found, intended, "the intent and the fact of it are stored together")
			if found && end == confirmed {
				require.Equal(t, stored.Commit, s.repo.Ref(t, main))
			}
		})
	}
}

// A40, A44: a run whose worker is killed after the publication, and each of whose reconcilers is killed in turn, still has one commit
// and one transaction in the end.
func TestARunKilledAgainAndAgainHasOneCommit(t *testing.T) {
	t.Parallel()
	s := set(t, change())
	run := s.emit(t, "again and again")
	for i, point := range []string{"accept.after_send", "close.before", "close.after_sign"} {
		killed := s.Worker(t, fmt.Sprintf("killed-%d", i), deployment.WorkerSettings{Failpoints: point + "=kill"})
		require.Equal(t, -1, killed.Ended(t, within), killed.Output())
	}
	s.Worker(t, "last", deployment.WorkerSettings{})
	run = s.final(t, run.ID, within)
	s.settled(t, run, evidence.StateCompleted, evidence.EffectConfirmed)
	require.Equal(t, int64(4), run.Epoch)
	intent, found, err := s.h.Store().Intent(t.Context(), run.ID)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, int64(1), intent.Epoch)
	require.Equal(t, intent.Commit, s.repo.Ref(t, main))
	require.Len(t, s.asked(t, main), 1)
}

// A26, A30, A43: whatever stage fails, teardown follows, nothing lands, and the run closes with that stage's failure.
func TestAStageThatFailsLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, stage := range []evidence.Stage{
		evidence.StageResolve, evidence.StageAdmit, evidence.StagePreflight, evidence.StageSandbox, evidence.StageSession,
		evidence.StageCapture, evidence.StageTeardown,
	} {
		t.Run(string(stage), func(t *testing.T) {
			t.Parallel()
			s := set(t, change())
			run := s.emit(t, string(stage))
			s.Worker(t, "failing", deployment.WorkerSettings{Failpoints: string(stage) + ".after=error"})
			run = s.final(t, run.ID, within)
			require.Equal(t, evidence.StateFailed, run.State)
			require.Equal(t, stage, run.FailedStage)
			require.Equal(t, evidence.CodeUnclassified, run.Code)
			require.Contains(t, []evidence.Effect{evidence.EffectNotDispatched, evidence.EffectNotApplied}, run.Effect)
			require.Len(t, s.repo.Log(t, main), 1)
			s.nothingLeft(t, run.ID)
			deployment.Verify(t, s.h, run.ID)
		})
	}
}
