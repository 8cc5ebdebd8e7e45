package queue_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/queue"
)

// benchWorkers are enough that the time between two fetches does not bound the throughput.
const benchWorkers = 32

// begin runs a worker whose handler calls back after each run that it has closed.
func begin(b *testing.B, s *queue.Store, done func(*queue.Lease)) (stop func()) {
	b.Helper()
	h := handler{execute: func(ctx context.Context, l *queue.Lease) error {
		err := l.Close(ctx, failed(evidence.EffectNotDispatched, evidence.CodeAdmissionDenied))
		done(l)
		return err
	}, reconcile: settles}
	w, err := queue.NewWorker(s, queue.WorkerConfig{Claimant: claimant("w1"), Version: "test", Concurrency: benchWorkers}, h)
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	return func() {
		cancel()
		require.NoError(b, <-ended)
	}
}

// BenchmarkClaimAndClose is a run's share of a full queue: its job, claimed and closed under a lease, with facts, result and
// signature's place stored.
func BenchmarkClaimAndClose(b *testing.B) {
	s := open(b, database(b))
	for i := range b.N {
		emit(b, s, request(fmt.Sprintf("run-%d", i)))
	}
	var left sync.WaitGroup
	left.Add(b.N)
	b.ResetTimer()
	stop := begin(b, s, func(*queue.Lease) { left.Done() })
	left.Wait()
	b.StopTimer()
	stop()
	require.EqualValues(b, b.N, count(b, s, "select count(*) from ops_run where state = 'failed'"))
}

type bareArgs struct{}

func (bareArgs) Kind() string { return "bare" }

// BenchmarkBareJob is the same number of River's jobs that do nothing, in the same database with the same settings.
func BenchmarkBareJob(b *testing.B) {
	s := open(b, database(b))
	var left sync.WaitGroup
	left.Add(b.N)
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(context.Context, *river.Job[bareArgs]) error {
		left.Done()
		return nil
	}))
	client, err := river.NewClient(riverpgxv5.New(s.Pool()), &river.Config{
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: benchWorkers}}, Workers: workers,
		FetchCooldown: 20 * time.Millisecond, FetchPollInterval: time.Second,
	})
	require.NoError(b, err)
	for range b.N {
		_, err := client.Insert(b.Context(), bareArgs{}, nil)
		require.NoError(b, err)
	}
	b.ResetTimer()
	require.NoError(b, client.Start(b.Context()))
	left.Wait()
	b.StopTimer()
	require.NoError(b, client.Stop(b.Context()))
}

// BenchmarkEnqueueToClaim emits runs one by one to a worker that has nothing else to do, and reports the time from the fact of the
// emission to that of the claim.
func BenchmarkEnqueueToClaim(b *testing.B) {
	s := open(b, database(b))
	claimed := make(chan time.Duration, 1)
	stop := begin(b, s, func(l *queue.Lease) {
		run := l.Run()
		claimed <- run.ClaimedAt.Sub(run.CreatedAt)
	})
	defer stop()
	var waited []time.Duration
	for i := 0; b.Loop(); i++ {
		emit(b, s, request(fmt.Sprintf("run-%d", i)))
		waited = append(waited, <-claimed)
	}
	slices.Sort(waited)
	b.ReportMetric(0, "ns/op") // leaves it out
	b.ReportMetric(float64(waited[len(waited)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(waited[(len(waited)*99+99)/100-1].Microseconds())/1000, "p99-ms")
}

func count(b *testing.B, s *queue.Store, query string) int64 {
	b.Helper()
	rows, err := s.Pool().Query(b.Context(), query)
	require.NoError(b, err)
	n, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[int64])
	require.NoError(b, err)
	return n
}
