package lease_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/queue"
	"github.com/rein-aharness/harness/tests/deployment"
)

// A38, CASES 10: a session that takes longer than a lease lives is kept in one epoch; a worker that is told to stop lets it end,
// and claims nothing more.
func TestADrainingWorkerEndsItsSessionAndClaimsNothingMore(t *testing.T) {
	t.Parallel()
	s := set(t, slowly(2*ttl))
	run := s.emit(t, "before the drain")
	worker := s.Worker(t, "draining", deployment.WorkerSettings{})
	s.inSession(t, run.ID)

	worker.Signal(t, syscall.SIGTERM)
	time.Sleep(100 * time.Millisecond) // the signal is taken
	request := deployment.Request("during the drain", s.ref, s.repo)
	request.TargetRef = "refs/heads/other"
	later, _, err := s.h.Emit(t.Context(), request, "")
	require.NoError(t, err)
	require.Zero(t, worker.Ended(t, within))

	run = s.run(t, run.ID)
	s.settled(t, run, evidence.StateCompleted, evidence.EffectConfirmed)
	require.Equal(t, int64(1), run.Epoch)
	later = s.run(t, later.ID)
	require.Equal(t, evidence.StateCreated, later.State)
	require.Zero(t, later.Epoch)
}

// A25, A30, B34: a run that is cancelled in its session is fenced at once, loses its sandbox, and ends as cancelled, by whom and why in
// the evidence.
func TestARunCancelledInItsSessionIsFencedAndClosed(t *testing.T) {
	t.Parallel()
	s := set(t, slowly(time.Minute))
	run := s.emit(t, "cancelled")
	s.Worker(t, "only", deployment.WorkerSettings{})
	s.inSession(t, run.ID)

	_, code := s.Command(t, "runs", "cancel", run.ID, "--operator", "ada", "--reason", "wrong branch", "--wait")
	require.Equal(t, int(evidence.ExitCancelled), code)
	run = s.run(t, run.ID)
	s.settled(t, run, evidence.StateCancelled, evidence.EffectNotApplied)
	require.Empty(t, s.asked(t, main))
	facts, err := s.h.Store().Facts(t.Context(), run.ID)
	require.NoError(t, err)
	cancelled, found, err := evidence.First[evidence.Cancelled](facts)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, "ada", cancelled.By)
	require.Equal(t, "wrong branch", cancelled.Reason)
}

// B25: while the harness is paused nothing is claimed and nothing published; a run that comes to its acceptance waits there and goes on.
func TestPauseHoldsClaimsAndPublicationsUntilResume(t *testing.T) {
	t.Parallel()
	s := set(t, slowly(2*time.Second))
	run := s.emit(t, "in its session")
	worker := s.Worker(t, "only", deployment.WorkerSettings{})
	s.inSession(t, run.ID)
	_, code := s.Command(t, "pause", "--operator", "ada", "--reason", "the git server is moved")
	require.Zero(t, code)
	request := deployment.Request("while paused", s.ref, s.repo)
	request.TargetRef = "refs/heads/other"
	other, _, err := s.h.Emit(t.Context(), request, "")
	require.NoError(t, err)

	s.until(t, run.ID, within, func(r queue.Run) bool { return r.Stage == evidence.StageAccept })
	time.Sleep(ttl + time.Second) // longer than a lease that nobody keeps
	require.Empty(t, s.asked(t, main))
	require.Equal(t, evidence.StateRunning, s.run(t, run.ID).State)
	require.Equal(t, evidence.StateCreated, s.run(t, other.ID).State)

	_, code = s.Command(t, "resume")
	require.Zero(t, code)
	run = s.final(t, run.ID, within)
	other = s.final(t, other.ID, within)
	require.Equal(t, int64(1), run.Epoch)
	require.Equal(t, evidence.EffectConfirmed, run.Effect)
	// Both went on, and the other stands on the base before the first one's commit: it is refused before or by its push.
	require.Equal(t, evidence.StateFailed, other.State)
	require.Contains(t, []evidence.Code{evidence.CodeBaselineMoved, evidence.CodePublicationRefused}, other.Code)
	require.Len(t, s.repo.Log(t, main), 2)
	require.Empty(t, s.repo.Ref(t, "refs/heads/other"))
	worker.Signal(t, syscall.SIGTERM)
	require.Zero(t, worker.Ended(t, within))
}

func (s *scene) definition(t *testing.T) string {
	t.Helper()
	path := filepath.Join(s.Dir, "definition.yaml")
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, `
version: 1
name: attended
repository: %s
base_ref: refs/heads/main
target_ref: refs/heads/main
task: Do what the profile says.
profile: %s
grant: {paths: ["**"], symlinks: false, protected: []}
`, s.repo.HTTPURL, s.ref), 0o600))
	return path
}

// A13: an attended run goes through the same chain in the process of its operator, and is labelled.
func TestAnAttendedRunCompletesInItsOwnProcess(t *testing.T) {
	t.Parallel()
	s := set(t, change())
	file := s.definition(t)
	_, code := s.Command(t, "run", "-f", file)
	require.Equal(t, int(evidence.ExitUsage), code, "there is no terminal and nobody is named")
	_, code = s.Command(t, "run", "-f", file, "--attended", "--operator", "ada")
	require.Zero(t, code)
	runs, err := s.h.Store().Runs(t.Context(), queue.Filter{})
	require.NoError(t, err)
	require.Len(t, runs, 1)
	s.settled(t, runs[0], evidence.StateCompleted, evidence.EffectConfirmed)
	require.True(t, runs[0].Attended)
	require.Equal(t, "ada", runs[0].Operator)
}

// A13, A25, B32: when the process of an attended run is killed, any worker settles it and none executes it.
func TestAnAttendedRunWhoseProcessIsKilledIsSettledByAnyWorker(t *testing.T) {
	t.Parallel()
	s := set(t, slowly(time.Minute))
	attended := s.Start(t, "attended", "run", "-f", s.definition(t), "--attended", "--operator", "ada")
	var run queue.Run
	eventually(t, within, func() bool {
		runs, err := s.h.Store().Runs(t.Context(), queue.Filter{})
		require.NoError(t, err)
		if len(runs) == 1 {
			run = runs[0]
		}
		return len(runs) == 1
	})
	s.inSession(t, run.ID)
	attended.Kill(t)
	s.Worker(t, "any", deployment.WorkerSettings{})
	run = s.final(t, run.ID, within)
	s.settled(t, run, evidence.StateFailed, evidence.EffectNotApplied)
	require.Equal(t, "any", run.WorkerID)
}
