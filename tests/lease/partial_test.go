package lease_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/queue"
	"github.com/rein-aharness/harness/tests/deployment"
)

// A41, B28, B32: a server that dies between the two updates leaves the fence moved and the branch not. No time decides that: the run
// waits, is listed as stuck, and an operator's word ends it, named in the evidence.
func TestAHalfPublicationWaitsForAnOperator(t *testing.T) {
	t.Parallel()
	s := set(t, change())
	// The branch's lock is gone when its turn comes: git has moved the fence by then and gives up.
	s.hook(t, "reference-transaction", `test "$1" = prepared && rm -f refs/heads/main.lock; exit 0`)
	run := s.emit(t, "half")
	s.Worker(t, "only", deployment.WorkerSettings{})
	run = s.until(t, run.ID, within, func(r queue.Run) bool { return r.NextCheckAt != nil })
	require.NoError(t, os.Remove(filepath.Join(s.repo.Dir, "hooks", "reference-transaction")))
	require.Equal(t, evidence.StateWaitingExternal, run.State)
	require.Equal(t, evidence.EffectPartial, run.Effect)
	require.Equal(t, s.repo.Baseline, s.repo.Ref(t, main))

	stuck, code := s.Command(t, "runs", "list", "--stuck", "--json")
	require.Zero(t, code)
	require.Contains(t, stuck, run.ID)
	_, code = s.Command(t, "reconcile", run.ID)
	require.Equal(t, int(evidence.ExitUnknown), code, "asking again decides nothing")
	_, code = s.Command(t, "runs", "settle", run.ID, "--effect", "not_applied", "--reason", "the branch was looked at", "--operator", "ada")
	require.Equal(t, int(evidence.ExitFailed), code)

	run = s.run(t, run.ID)
	require.Equal(t, evidence.StateFailed, run.State)
	require.Equal(t, evidence.EffectNotApplied, run.Effect)
	require.Equal(t, evidence.CodePublicationPartial, run.Code)
	require.Len(t, s.repo.Log(t, main), 1)
	s.nothingLeft(t, run.ID)
	facts, err := s.h.Store().Facts(t.Context(), run.ID)
	require.NoError(t, err)
	settled, found, err := evidence.Last[evidence.Settled](facts)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, "operator ada", settled.By)
	require.Equal(t, "the branch was looked at", settled.Reason)
	deployment.Verify(t, s.h, run.ID)
}
