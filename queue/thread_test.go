package queue_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/queue"
)

// A1, A16, A20, A42, A48
func TestRunGoesFromEmissionToCloseWithItsEvidence(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	run := emit(t, s, request("one"))
	require.Equal(t, evidence.StateCreated, run.State)
	require.Equal(t, 1, scalar[int](t, s, `SELECT count(*)::int FROM river_job WHERE kind = 'harness_run' AND args->>'run' = $1`, run.ID))

	lease := claim(t, s, run)
	require.EqualValues(t, 1, lease.Epoch())
	require.Equal(t, "w1/n1", lease.Owner())
	contract, err := lease.Run().Contract()
	require.NoError(t, err)
	require.Equal(t, "git.example/team/one", contract.Grant().Repository)

	start(t, t.Context(), lease)
	intend(t, t.Context(), lease)
	stored, err := s.Facts(t.Context(), run.ID)
	require.NoError(t, err)
	require.Equal(t, lease.Facts(), stored, "all facts are stored with the intent")
	published(t, lease)
	require.NoError(t, lease.Close(t.Context(), completed()))

	run, err = s.Run(t.Context(), run.ID)
	require.NoError(t, err)
	require.Equal(t, evidence.StateCompleted, run.State)
	require.Equal(t, evidence.EffectConfirmed, run.Effect)
	require.Nil(t, run.ExpiresAt)
	require.Equal(t, []byte("signed"), run.Statement)
	facts, err := s.Facts(t.Context(), run.ID)
	require.NoError(t, err)
	require.NoError(t, evidence.VerifyChain(run.ID, facts))
	result, err := queue.DecodeResult(run.Result)
	require.NoError(t, err)
	require.Equal(t, commitOf("c"), result.Commit)
	require.Equal(t, facts[len(facts)-1].Digest, result.EvidenceHead)
	require.Equal(t, len(facts), result.EvidenceCount)
	require.Zero(t, scalar[int](t, s, `SELECT count(*)::int FROM ref_lock`))
}
