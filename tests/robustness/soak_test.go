package robustness_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docker/docker/client"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rein-aharness/harness"
	"github.com/rein-aharness/harness/tests/deployment"
	"github.com/rein-aharness/harness/tests/robustness/history"
	"github.com/rein-aharness/harness/tests/robustness/validate"
	"github.com/rein-aharness/harness/tests/stack"
)

const (
	ttl          = 3 * time.Second
	workers      = 4
	repositories = 3
	branches     = 5 // of each repository, besides main
	emitters     = 3
	openRuns     = 10 // no more is emitted while so many are not final

	// The environment of a long one.
	durationVariable = "SOAK_DURATION"
	seedVariable     = "SOAK_SEED"
	faultsVariable   = "SOAK_FAULTS" // names of the only ones, separated by commas
	folderVariable   = "SOAK_FOLDER" // where everything is kept, also when nothing was found
	short            = 2 * time.Minute
)

// soak is one deployment under faults.
type soak struct {
	*deployment.Deployment
	t       *testing.T
	seed    uint64
	began   time.Time
	folder  string           // everything that is kept when something was found
	prefix  string           // of the names of this one's workers
	watcher *harness.Harness // sees what is, by ways without faults
	traffic *harness.Harness // emits and cancels, by those with faults
	db      *pgxpool.Pool    // without faults
	engine  *client.Client
	repos   []stack.RemoteRepo
	proxies []*proxy
	workers []*worker
	jobs    []job
	open    atomic.Int64 // runs that are not final

	mu        sync.Mutex
	faults    map[string]int
	kills     []kill
	gone      map[held]time.Time // when the engine lost the container of a run's epoch
	cancels   []history.LeaseOp
	revoked   []kill // the runs that were cancelled, in whatever epoch
	emissions []history.Emission
	breaking  bool           // the database or the engine itself is being restarted
	refusals  map[string]int // emissions that were not answered, by code
	samples   []history.Sample
	broken    []error // of the test's own doing
}

// held is a run in one epoch.
type held struct {
	run   string
	epoch int64
}

// A16, A25, A36, A37, A38, A40, A41, A44, CASES 2, 15, 16: whatever fails, whenever, no run is lost or done twice, no lease has two
// holders, nothing lands that does not own its run, and nothing is left.
func TestNoFaultLosesDoublesOrLeaksAnything(t *testing.T) {
	s := begin(t, stack.Load(t))
	lasts, faults := duration(t), s.list()
	s.run(func(ctx context.Context) {
		running, stop := context.WithTimeout(ctx, lasts)
		defer stop()
		s.disturb(running, faults, rand.New(rand.NewPCG(s.seed, 0)))
	})
}

// run has workers and traffic go on while disturb makes trouble, ends everything, and requires that no invariant is violated.
func (s *soak) run(disturb func(context.Context)) {
	t := s.t
	var all sync.WaitGroup
	watching, stopWatching := context.WithCancel(t.Context())
	all.Go(func() { s.watchEngine(watching) })
	all.Go(func() { s.watchProcesses(watching) })
	all.Go(func() { s.watchQueue(watching) })
	supervising, stopWorkers := context.WithCancel(t.Context())
	for _, w := range s.workers {
		all.Go(func() { w.supervise(supervising) })
	}
	var load sync.WaitGroup
	emitting, stopEmitting := context.WithCancel(t.Context())
	for i := range emitters {
		load.Go(func() { s.emit(emitting, i, rand.New(rand.NewPCG(s.seed, uint64(i)+1))) })
	}
	disturb(t.Context())
	stopEmitting()
	load.Wait()

	s.heal()
	s.settle()
	record := s.collect()
	s.retire(&record)
	stopWorkers()
	s.drain(&record)
	stopWatching()
	all.Wait()
	s.left(&record)

	record.Samples, record.Leases = s.samples, append(record.Leases, s.leases()...)
	report := s.report(record, validate.All(record))
	t.Log("\n" + report.String())
	s.keep(record, report)
	require.NoError(t, s.trouble())
	require.Empty(t, report.Violations, "seed %d; everything is in %s", s.seed, s.folder)
	require.NotZero(t, report.Effects["confirmed"], "nothing was confirmed, so nothing was shown")
	if time.Since(s.began) > 5*time.Minute {
		require.NotEmpty(t, report.Growths, "no process lived long enough to show whether it grows")
	}
}

func duration(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv(durationVariable)
	if text == "" {
		return short
	}
	d, err := time.ParseDuration(text)
	require.NoError(t, err)
	return d
}

func seed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv(seedVariable)
	if text == "" {
		return rand.Uint64N(1_000_000)
	}
	n, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err)
	return n
}

func begin(t *testing.T, on *stack.Stack) *soak {
	s := &soak{
		t: t, seed: seed(t), began: time.Now(), faults: map[string]int{}, gone: map[held]time.Time{}, refusals: map[string]int{},
	}
	t.Logf("seed %d", s.seed)
	s.prefix = fmt.Sprintf("s%d-%d", s.seed, time.Now().UnixNano()%1_000_000)
	s.folder = os.Getenv(folderVariable)
	if s.folder == "" {
		dir, err := os.MkdirTemp("", fmt.Sprintf("robustness-%d-", s.seed))
		require.NoError(t, err)
		s.folder = dir
	}
	require.NoError(t, os.MkdirAll(s.folder, 0o755))
	s.Deployment = deployment.New(t, deployment.Settings{Stack: on, TTLSeconds: int(ttl / time.Second), HeartbeatSeconds: 1})
	s.watcher = s.Open(t, harness.Options{})
	s.openDatabase()
	s.openEngine()
	s.openProxies()
	s.openTraffic()
	for i := range workers {
		s.workers = append(s.workers, s.newWorker(i))
	}
	return s
}

func (s *soak) openDatabase() {
	url, err := s.Config.Database.URL()
	require.NoError(s.t, err)
	s.db, err = pgxpool.New(s.t.Context(), url)
	require.NoError(s.t, err)
	s.t.Cleanup(s.db.Close)
	_, err = s.db.Exec(s.t.Context(), history.Audit)
	require.NoError(s.t, err)
}

// wrong notes an error of the test's own doing, from any goroutine. It fails the test in the end.
func (s *soak) wrong(what string, err error) {
	if err == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = append(s.broken, fmt.Errorf("%s: %w", what, err))
}

// watched notes that something could not be seen, unless the test has just broken what is looked at.
func (s *soak) watched(ctx context.Context, what string, err error) {
	s.mu.Lock()
	breaking := s.breaking
	s.mu.Unlock()
	if !breaking && ctx.Err() == nil {
		s.wrong(what, err)
	}
}

// leases are the operations that the workers wrote down, and the test's own.
func (s *soak) leases() []history.LeaseOp {
	var files []string
	for _, w := range s.workers {
		files = append(files, w.history)
	}
	files = append(files, filepath.Join(s.folder, operatorHistory))
	ops, err := history.ReadLeases(files...)
	s.wrong("read the histories", err)
	return append(ops, s.cancels...)
}

// pause waits, and says whether ctx has not ended meanwhile.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// monotonic is the machine's clock that the workers' histories go by.
func monotonic() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err) // there is always one
	}
	return now.Nano()
}

func between(r *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(r.Int64N(int64(high-low)))
}
