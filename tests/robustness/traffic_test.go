package robustness_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness"
	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/profiles"
	"github.com/rein-aharness/harness/queue"
	"github.com/rein-aharness/harness/rein/credential"
	"github.com/rein-aharness/harness/repotx"
	"github.com/rein-aharness/harness/tests/deployment"
	"github.com/rein-aharness/harness/tests/robustness/history"
)

// job is one kind of run.
type job struct {
	name   string
	weight int
	argv   []string
	fresh  bool // on a branch that does not exist yet
	narrow bool // granted less than it changes
	ref    profiles.Ref
}

func jobs() []job {
	toolbox := func(arguments ...string) []string { return append([]string{"/usr/local/bin/toolbox"}, arguments...) }
	return []job{
		{name: "change", weight: 45, argv: toolbox("append", "a.txt", "q:more\\n")},
		{name: "new-branch", weight: 15, argv: toolbox("append", "a.txt", "q:new\\n"), fresh: true},
		{name: "slow", weight: 15, argv: toolbox("append", "a.txt", "q:slow\\n", ";", "sleep", "1500ms")},
		{name: "no-change", weight: 8, argv: toolbox("print", "nothing to do")},
		{name: "failing", weight: 8, argv: toolbox("append", "a.txt", "q:half\\n", ";", "exit", "3")},
		{name: "outside", weight: 9, argv: toolbox("write", "b.txt", "elsewhere"), narrow: true},
	}
}

// openTraffic makes the repositories and the profiles, and opens the deployment by the ways that have faults.
func (s *soak) openTraffic() {
	path, policy := s.Stack.Credential(s.t, map[string]string{"token": "not-a-secret-of-anybody"})
	for _, j := range jobs() {
		p := s.Profile(s.t, j.name, "hostile", j.argv...)
		if !j.narrow {
			p.Credentials = []credential.Route{{
				Revision: "token@1.0.0", Path: path, Policy: policy, Field: "token", TTLSeconds: 120,
				Inject: credential.Injection{Kind: credential.InjectFile, Target: "token"},
			}}
		}
		j.ref = s.Vouch(s.t, s.watcher, p)
		s.jobs = append(s.jobs, j)
	}
	for range repositories {
		repo := s.Stack.Repository(s.t, "robust", map[string]string{".harness.yaml": deployment.Manifest, "a.txt": "as it is\n"})
		for i := range branches {
			repo.Git(s.t, "update-ref", branch(i), repo.Baseline)
		}
		require.NoError(s.t, history.Watch(repo.Dir))
		repo.HTTPURL = s.proxies[2].Through(s.t, repo.HTTPURL)
		s.repos = append(s.repos, repo)
	}
	config, err := harness.ReadConfig(s.configure(s.prefix + "-traffic"))
	require.NoError(s.t, err)
	s.traffic, err = harness.Open(s.t.Context(), config, harness.Options{Vault: true})
	require.NoError(s.t, err)
	s.t.Cleanup(func() { require.NoError(s.t, s.traffic.Close(context.WithoutCancel(s.t.Context()))) })
}

func branch(i int) string { return fmt.Sprintf("refs/heads/target-%d", i) }

// request draws what one run is to be.
func (s *soak) request(r *rand.Rand, trigger string) queue.Request {
	total := 0
	for _, j := range s.jobs {
		total += j.weight
	}
	n, i := r.IntN(total), 0
	for ; n >= s.jobs[i].weight; i++ {
		n -= s.jobs[i].weight
	}
	j := s.jobs[i]
	request := deployment.Request(trigger, j.ref, s.repos[r.IntN(len(s.repos))])
	request.Definition = j.name
	to := r.IntN(branches + 1)
	switch {
	case j.fresh:
		request.TargetRef = "refs/heads/new/" + trigger
	case to < branches:
		request.BaseRef, request.TargetRef = branch(to), branch(to)
	}
	if j.narrow {
		request.Grant = repotx.Bounds{Paths: []string{"a.txt"}}
	}
	return request
}

// How often something besides an emission is done, in percent.
const (
	duplicates    = 10
	cancellations = 6
)

// emit emits until ctx ends. What is not answered is asked again under the same trigger key, since it may have been done.
func (s *soak) emit(ctx context.Context, emitter int, r *rand.Rand) {
	for n := 0; ; n++ {
		for s.open.Load() >= openRuns {
			if !pause(ctx, 100*time.Millisecond) {
				return
			}
		}
		request := s.request(r, fmt.Sprintf("%d-%d", emitter, n))
		twice, cancel := r.IntN(100) < duplicates, r.IntN(100) < cancellations
		after := between(r, time.Millisecond, 4*time.Second)
		run, ok := s.emitUntil(ctx, request)
		if ok && twice {
			_, ok = s.emitUntil(ctx, request)
		}
		if ok && cancel && pause(ctx, after) {
			s.cancel(ctx, run)
		}
		if !pause(ctx, 50*time.Millisecond) {
			return
		}
	}
}

const attempts = 8

func (s *soak) emitUntil(ctx context.Context, request queue.Request) (run string, ok bool) {
	for range attempts {
		asking, done := context.WithTimeout(ctx, 10*time.Second)
		got, created, err := s.traffic.Emit(asking, request, "")
		done()
		s.mu.Lock()
		if err == nil {
			s.emissions = append(s.emissions, history.Emission{TriggerKey: request.TriggerKey, Run: got.ID, Created: created})
			s.mu.Unlock()
			s.open.Add(1)
			return got.ID, true
		}
		s.refusals[cmp.Or(string(evidence.CodeOf(err)), "not answered")]++
		s.mu.Unlock()
		if !pause(ctx, 500*time.Millisecond) {
			break
		}
	}
	return "", false
}

// cancel cancels a run, and writes it down as the operation on its lease that it is.
func (s *soak) cancel(ctx context.Context, run string) {
	op, at := history.LeaseOp{Op: history.Cancel, Run: run, Call: monotonic()}, time.Now()
	asking, done := context.WithTimeout(ctx, 5*time.Second)
	defer done()
	op.Outcome, op.Error = history.OutcomeOf(s.traffic.Store().Cancel(asking, run, "test", "somebody thought better of it"))
	op.Return = monotonic()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancels = append(s.cancels, op)
	if op.Outcome == history.OK {
		s.revoked = append(s.revoked, kill{held{run: run}, at})
	}
}
