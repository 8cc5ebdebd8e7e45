package faults_test

import (
	"errors"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/rein-aharness/harness"
	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/queue"
	"github.com/rein-aharness/harness/tests/deployment"
	"github.com/rein-aharness/harness/tests/faults"
)

const (
	// The environment of make faults.
	allVariable     = "FAULTS_ALL"     // anything: every cell, and not the fixed set
	resultsVariable = "FAULTS_RESULTS" // file that results are added to; what it has of the commit and holds is not run again
	commitVariable  = "FAULTS_COMMIT"  // of this repository
	// atOnce is how many cells run at once.
	atOnce = 4
)

// A16, A25, A26, A30, A36, A37, A38, A40, A41, A44: whatever fails at whichever boundary between two steps, the run ends as the cell
// says, with one commit exactly when its effect is confirmed, with evidence that verifies, and with no sandbox and no token left.
func TestARunEndsRightWhateverFailsAtABoundary(t *testing.T) {
	t.Parallel()
	cells, file, commit := faults.Covering(), os.Getenv(resultsVariable), os.Getenv(commitVariable)
	if os.Getenv(allVariable) != "" {
		cells = faults.Cells()
	}
	before := map[string]faults.Result{}
	if file != "" {
		var err error
		before, err = faults.Read(file, commit)
		require.NoError(t, err)
	}
	var mu sync.Mutex
	var all errgroup.Group
	all.SetLimit(atOnce)
	for _, c := range cells {
		if r, was := before[c.Name()]; c.Left() != "" || was && len(r.Wrong(c)) == 0 {
			continue
		}
		all.Go(func() error {
			t.Run(c.Name(), func(t *testing.T) {
				result := faults.Result{Cell: c.Name(), Commit: commit, Trouble: []string{"it did not come to its end"}}
				defer func() {
					if file != "" {
						mu.Lock()
						defer mu.Unlock()
						require.NoError(t, faults.Append(file, result))
					}
				}()
				try(t, c, &result)
				require.Empty(t, result.Wrong(c), "%+v", result)
			})
			return nil
		})
	}
	require.NoError(t, all.Wait())
}

// try makes the fault at the boundary, has everything end, and notes what came of it.
func try(t *testing.T, c faults.Cell, r *faults.Result) {
	t.Helper()
	s := set(t)
	fault, found := makers()[c.Kind.Name]
	require.True(t, found, c.Kind.Name)
	s.worker(t, "first", c.Point.Name+"=hold:"+s.hold)
	emitted := s.reach(t)
	r.Run = s.run.ID

	fault.begin(t, s)
	require.NoError(t, os.Remove(s.hold))
	fault.lasts(t, s)
	fault.end(t, s)

	run := s.end(t)
	r.Seconds, r.Epoch = time.Since(emitted).Seconds(), run.Epoch
	r.Outcome = faults.Outcome{State: string(run.State), Effect: string(run.Effect), Code: string(run.Code)}
	s.cleared(t)
	r.Trouble = s.drain(t, c.Kind.Name == faults.WorkerKilled)
	s.observe(t, r)
}

// reach emits a run and waits until its worker is held, which at the last boundary is after the run is final. A run that ends before
// its boundary, as one does whose sandbox is too slow on a busy machine, says nothing about the boundary: another is emitted.
func (s *scene) reach(t *testing.T) (emitted time.Time) {
	t.Helper()
	for _, trigger := range []string{"first", "second", "third"} {
		var err error
		s.run, _, err = s.h.Emit(t.Context(), deployment.Request(trigger, s.ref, s.repo), "")
		require.NoError(t, err)
		emitted = time.Now()
		var run queue.Run
		require.True(t, eventually(within, func() bool {
			run = s.look(t)
			return s.held() || run.State.Final()
		}), "the boundary is not reached: the run is %s in %s", run.State, run.Stage)
		if s.held() || run.State == evidence.StateCompleted && eventually(within, s.held) {
			return emitted
		}
		t.Logf("run %s ended %s (%s %s) before the boundary", run.ID, run.State, run.FailedStage, run.Code)
	}
	require.FailNow(t, "no run reaches the boundary")
	return emitted
}

func (s *scene) held() bool {
	_, err := os.Stat(s.hold)
	return err == nil
}

// end waits for the end of the run. What waits for the remote is looked at without waiting for its time.
func (s *scene) end(t *testing.T) queue.Run {
	t.Helper()
	var run queue.Run
	require.True(t, eventually(within, func() bool {
		run = s.look(t)
		if run.State == evidence.StateWaitingExternal {
			if err := s.h.Store().CheckNow(t.Context(), run.ID); err != nil {
				require.True(t, errors.Is(err, queue.ErrNotClaimable), "%v", err)
			}
			time.Sleep(time.Second)
		}
		return run.State.Final()
	}), "the run is %s, its effect %s", run.State, run.Effect)
	return run
}

// cleared waits until the workers have cleared away what is left, with every chore due at once. What stays is counted later.
func (s *scene) cleared(t *testing.T) {
	t.Helper()
	eventually(within, func() bool {
		if len(s.containers(t)) == 0 && len(s.Stack.LiveTokens(t, "harness_run", s.run.ID)) == 0 {
			return true
		}
		_, err := s.db.Exec(t.Context(), `UPDATE chore SET next_at = clock_timestamp() WHERE next_at > clock_timestamp() + interval '1 second'`)
		require.NoError(t, err)
		time.Sleep(500 * time.Millisecond)
		return false
	})
}

// drain has every worker end, so that whatever one of them may still do is done.
func (s *scene) drain(t *testing.T, killed bool) (trouble []string) {
	t.Helper()
	workers := s.workers
	if killed {
		workers = workers[1:]
	}
	for _, w := range workers {
		w.Signal(t, syscall.SIGTERM)
	}
	for _, w := range workers {
		if code := w.Ended(t, within); code != 0 {
			trouble = append(trouble, "worker "+w.Name+" did not end well")
			t.Log(w.Output())
		}
	}
	return trouble
}

// observe counts what is on the remote and what is left, and verifies the evidence, offline and at the remote.
func (s *scene) observe(t *testing.T, r *faults.Result) {
	t.Helper()
	log := s.repo.Git(t, "log", "--format=%H %(trailers:key="+evidence.TrailerRun+",valueonly,separator=%x2C)", main, "^"+s.repo.Baseline, "--")
	for line := range strings.Lines(log) {
		if _, run, _ := strings.Cut(strings.TrimSpace(line), " "); run == s.run.ID {
			r.Commits++
		} else {
			r.Others++
		}
	}
	r.Containers, r.Tokens = len(s.containers(t)), len(s.Stack.LiveTokens(t, "harness_run", s.run.ID))
	trust, err := s.h.Trust()
	require.NoError(t, err)
	r.Verified = true
	for _, remote := range []bool{false, true} {
		report, err := s.h.Verify(t.Context(), s.run.ID, harness.VerifyOptions{Trust: trust, Remote: remote})
		if err != nil {
			r.Trouble = append(r.Trouble, "verify: "+err.Error())
		}
		r.Verified = r.Verified && err == nil && report.OK()
	}
}
