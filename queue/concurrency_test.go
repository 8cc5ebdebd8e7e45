package queue_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/queue"
)

// A36, CASES 7
func TestRepositoryHasNoMoreRunsThanItsDefinitionsAllow(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	var runs []queue.Run
	for i := range 12 {
		r := request("crowd")
		r.TriggerKey, r.TargetRef, r.Concurrency = fmt.Sprint("crowd-", i), fmt.Sprint("refs/heads/out-", i), 3
		runs = append(runs, emit(t, s, r))
	}
	free := request("crowd")
	free.TriggerKey, free.TargetRef = "free", "refs/heads/free"
	unbounded := emit(t, s, free)
	elsewhere := request("elsewhere")
	elsewhere.Concurrency = 1
	other := emit(t, s, elsewhere)

	var mu sync.Mutex
	var leases []*queue.Lease
	var all sync.WaitGroup
	for _, run := range runs {
		all.Go(func() {
			lease, err := s.Claim(t.Context(), run.ID, claimant("w1"))
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				leases = append(leases, lease)
			} else if !errors.Is(err, queue.ErrRepositoryBusy) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.Len(t, leases, 3)
	_, err := s.Claim(t.Context(), unbounded.ID, claimant("w1"))
	require.ErrorIs(t, err, queue.ErrRepositoryBusy, "one that says nothing itself would be one too many for those that do")
	claim(t, s, other)

	sql(t, s, `DELETE FROM river_job`)
	require.Equal(t, queue.Ticked{}, tick(t, s), "no job is made of what could not be claimed")
	complete(t, t.Context(), leases[0])
	require.Equal(t, queue.Ticked{Runs: 10}, tick(t, s))
	claim(t, s, unbounded)
	require.Equal(t, 3, scalar[int](t, s, `SELECT count(*)::int FROM ref_lock WHERE repository LIKE '%crowd'`))
	_, err = s.Pool().Exec(t.Context(), `UPDATE ops_run SET concurrency = 0 WHERE id = $1`, runs[0].ID)
	require.Error(t, err)
}

func TestRequestWithoutABoundIsWhatItWasBefore(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	run := emit(t, s, request("plain"))
	require.NotContains(t, string(run.ContractBytes), "concurrency")
	r := request("bounded")
	r.Concurrency = 2
	contract, err := emit(t, s, r).Contract()
	require.NoError(t, err)
	require.Equal(t, 2, contract.Request.Concurrency)
	require.True(t, strings.HasPrefix(contract.RequestDigest, "sha256:"))
}
