package robustness_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness"
	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/queue"
	"github.com/rein-aharness/harness/tests/deployment"
	"github.com/rein-aharness/harness/tests/robustness/history"
	"github.com/rein-aharness/harness/tests/stack"
)

const (
	// settleWithin bounds how long two workers without faults may need to end everything that is open.
	settleWithin = 3 * time.Minute
	// decideAfter is how long a run may wait for the remote without faults before an operator decides it.
	decideAfter = 20 * time.Second
	// operatorHistory is where commands write down their operations on leases.
	operatorHistory = "leases-operator.jsonl"
)

// settle lets two workers end everything that is open. What the remote cannot decide is decided as an operator would.
func (s *soak) settle() {
	ctx := s.t.Context()
	for i, w := range s.workers {
		w.mu.Lock()
		w.last = i > 1
		w.mu.Unlock()
		if i > 1 {
			w.signal(syscall.SIGTERM)
		}
	}
	began := time.Now()
	for time.Since(began) < settleWithin && pause(ctx, time.Second) {
		rows, err := s.db.Query(ctx, `SELECT id, state, effect FROM ops_run WHERE finished_at IS NULL`)
		if err != nil {
			s.wrong("look for open runs", err)
			return
		}
		open, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct{ ID, State, Effect string }])
		if err != nil || len(open) == 0 {
			s.wrong("look for open runs", err)
			return
		}
		for _, run := range open {
			if run.State != string(evidence.StateWaitingExternal) {
				continue
			}
			if run.Effect == string(evidence.EffectPartial) && time.Since(began) > decideAfter {
				s.decide(run.ID)
				continue
			}
			if err := s.watcher.Store().CheckNow(ctx, run.ID); err != nil && !errors.Is(err, queue.ErrNotClaimable) {
				s.wrong("look at a run now", err)
			}
		}
	}
}

// decide settles a run by the command, as not applied: the branch was not moved.
func (s *soak) decide(run string) {
	cmd := exec.Command(deployment.FailpointBinary(s.t), "runs", "settle", run, "--effect", "not_applied", "--reason", "the branch was looked at",
		"--operator", "test", "--config", s.File)
	cmd.Env = append(os.Environ(), "HARNESS_HISTORY="+filepath.Join(s.folder, operatorHistory))
	output, err := cmd.CombinedOutput()
	s.t.Logf("settle %s: %v: %s", run, err, output) // a worker may have it just now: it is tried again
}

// collect reads how every run ended, and verifies its evidence, at its remote too.
func (s *soak) collect() history.Record {
	ctx := s.t.Context()
	record := history.Record{Seed: s.seed, Emissions: s.emissions}
	trust, err := s.watcher.Trust()
	require.NoError(s.t, err)
	before := ""
	for {
		page, err := s.watcher.Store().Runs(ctx, queue.Filter{Before: before, Limit: 100})
		require.NoError(s.t, err)
		if len(page) == 0 {
			break
		}
		before = page[len(page)-1].ID
		ended := make([]history.Run, len(page))
		var all sync.WaitGroup
		at := make(chan struct{}, 2)
		for i, run := range page {
			at <- struct{}{}
			all.Go(func() {
				defer func() { <-at }()
				ended[i] = s.ended(ctx, run, trust)
			})
		}
		all.Wait()
		record.Runs = append(record.Runs, ended...)
	}
	for _, repo := range s.repos {
		record.Commits = append(record.Commits, s.commits(repo)...)
	}
	record.Transitions, err = history.ReadTransitions(ctx, s.db)
	require.NoError(s.t, err)
	return record
}

func (s *soak) ended(ctx context.Context, run queue.Run, trust evidence.Trust) history.Run {
	end := history.Run{
		ID: run.ID, Trigger: run.TriggerKey, TargetRef: run.TargetRef, State: string(run.State), Final: run.State.Final(),
		Effect: string(run.Effect), Disposition: string(run.Disposition), Stage: string(run.FailedStage), Code: string(run.Code), Epoch: run.Epoch,
	}
	contract, err := run.Contract()
	s.wrong("read a contract", err)
	end.Repository = filepath.Base(contract.Request.Repository)
	intent, _, err := s.watcher.Store().Intent(ctx, run.ID)
	s.wrong("read an intent", err)
	end.Commit = intent.Commit
	if !end.Final {
		return end
	}
	report, err := s.watcher.Verify(ctx, run.ID, harness.VerifyOptions{Trust: trust, Remote: true})
	switch {
	case err != nil:
		end.Unverified = err.Error()
	case !report.OK():
		end.Unverified = fmt.Sprintf("%+v", report.Checks)
	}
	return end
}

// commits are those that the branches of a repository have gained.
func (s *soak) commits(repo stack.RemoteRepo) []history.CommitOn {
	var all []history.CommitOn
	for ref := range repo.Refs(s.t) {
		if !strings.HasPrefix(ref, "refs/heads/") {
			continue
		}
		log := repo.Git(s.t, "log", "--format=%H %(trailers:key="+evidence.TrailerRun+",valueonly,separator=%x2C)", ref, "^"+repo.Baseline, "--")
		for line := range strings.Lines(log) {
			hash, run, _ := strings.Cut(strings.TrimSpace(line), " ")
			all = append(all, history.CommitOn{Repository: repo.Name, Ref: ref, Hash: hash, Run: run})
		}
	}
	return all
}

// retireWithin bounds how long the workers may be without having anything go that is to go by itself.
const retireWithin = 2 * time.Minute

// retire lets the retention of all fences end and every chore be due, and waits until nothing is left. Then it reads what the remotes
// and the database have written down.
func (s *soak) retire(record *history.Record) {
	ctx := s.t.Context()
	least := math.MaxInt // of what was left
	for end := time.Now().Add(retireWithin); time.Now().Before(end) && pause(ctx, 3*time.Second); {
		for _, statement := range []string{
			`UPDATE run_fence SET due_at = clock_timestamp() WHERE deleted_at IS NULL AND due_at > clock_timestamp()`,
			`UPDATE chore SET next_at = clock_timestamp()`,
		} {
			_, err := s.db.Exec(ctx, statement)
			require.NoError(s.t, err)
		}
		left := len(s.remains(ctx))
		if left == 0 {
			break
		}
		if left < least {
			least, end = left, time.Now().Add(retireWithin)
		}
	}
	for _, repo := range s.repos {
		transactions, err := history.ReadTransactions(ctx, repo.Dir)
		require.NoError(s.t, err)
		record.Transactions = append(record.Transactions, transactions...)
	}
	var err error
	record.Changes, err = history.ReadChanges(ctx, s.db)
	require.NoError(s.t, err)
}

// drain has every worker end.
func (s *soak) drain(record *history.Record) {
	var all sync.WaitGroup
	for _, w := range s.workers {
		w.mu.Lock()
		w.last = true
		w.mu.Unlock()
		all.Go(func() {
			if err := w.drain(context.WithoutCancel(s.t.Context())); err != nil {
				s.mu.Lock()
				defer s.mu.Unlock()
				record.Left = append(record.Left, history.Left{What: "process", Name: err.Error()})
			}
		})
	}
	all.Wait()
}

// left adds whatever should be gone.
func (s *soak) left(record *history.Record) {
	record.Left = append(record.Left, s.remains(s.t.Context())...)
}

// trouble is what went wrong with the test itself.
func (s *soak) trouble() error { return errors.Join(s.broken...) }
