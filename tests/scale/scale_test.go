package scale_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness"
	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/queue"
	"github.com/rein-aharness/harness/rein/credential"
	"github.com/rein-aharness/harness/tests/deployment"
	"github.com/rein-aharness/harness/tests/stack"
)

const (
	workers      = 8
	repositories = 20
	branches     = 10 // of each repository
	pushes       = "pushes.log"
	// within bounds the whole in case something hangs.
	within = 15 * time.Minute
)

// record writes a line per changed ref: the time on the server, the old and the new value, and the ref.
const record = "#!/bin/sh\nwhile read old new ref; do echo \"$(date +%s%N) $old $new $ref\" >>" + pushes + "; done\n"

// A36: eight worker processes land every run as exactly one commit, the server never sees two runs at work on one ref,
// and neither a container nor a live token is left.
func TestWorkersLandEveryRunOnceAndLeaveNothing(t *testing.T) {
	d := deployment.New(t, deployment.Settings{Concurrency: 1})
	h := d.Open(t, harness.Options{})
	var repos []stack.RemoteRepo
	for range repositories {
		repo := d.Stack.Repository(t, "scale", map[string]string{".harness.yaml": deployment.Manifest, "a.txt": "as it is\n"})
		for i := range branches {
			repo.Git(t, "update-ref", branch(i), repo.Baseline)
		}
		repos = append(repos, repo)
	}
	profile := d.Profile(t, "change", "hostile", "/usr/local/bin/toolbox", "write", "a.txt", "changed")
	path, policy := d.Stack.Credential(t, map[string]string{"token": "not-a-secret-of-anybody"})
	profile.Credentials = []credential.Route{{
		Revision: "token@1.0.0", Path: path, Policy: policy, Field: "token", TTLSeconds: 300,
		Inject: credential.Injection{Kind: credential.InjectFile, Target: "token"},
	}}
	ref := d.Publish(t, h, profile, repos[0])
	var runs []queue.Run
	emit := func(n int, repo stack.RemoteRepo, i int) {
		request := deployment.Request(fmt.Sprintf("%s-%d-%d", repo.Name, i, n), ref, repo)
		request.BaseRef, request.TargetRef = branch(i), branch(i)
		run, _, err := h.Emit(t.Context(), request, "")
		require.NoError(t, err)
		runs = append(runs, run)
	}
	for _, repo := range repos {
		require.NoError(t, os.WriteFile(filepath.Join(repo.Dir, "hooks", "post-receive"), []byte(record), 0o755))
		for i := range branches {
			emit(1, repo, i)
		}
		emit(2, repo, 0) // from the same baseline: whichever is second finds that it moved
	}
	for i := range workers {
		d.Worker(t, fmt.Sprintf("worker-%d", i+1), deployment.WorkerSettings{})
	}

	ended := map[string]queue.Run{}
	require.Eventually(t, func() bool {
		for _, run := range runs {
			if _, done := ended[run.ID]; done {
				continue
			}
			now, err := h.Store().Run(t.Context(), run.ID)
			if err != nil || !now.State.Final() {
				return false
			}
			ended[run.ID] = now
		}
		return true
	}, within, 250*time.Millisecond)

	completed := map[string]int{}
	for _, run := range ended {
		if run.State == evidence.StateCompleted {
			completed[run.Repository+run.TargetRef]++
			continue
		}
		require.Equal(t, branch(0), run.TargetRef, "%s %s", run.FailedStage, run.Code)
		require.Equal(t, evidence.CodeBaselineMoved, run.Code)
	}
	require.Len(t, completed, len(repos)*branches)
	for ref, n := range completed {
		require.Equal(t, 1, n, ref)
	}
	for _, repo := range repos {
		for i := range branches {
			require.Equal(t, "1", strings.TrimSpace(repo.Git(t, "rev-list", "--count", repo.Baseline+".."+branch(i))))
		}
		apart(t, repo, ended)
	}
	nothingLeft(t, d, ended)
}

func branch(i int) string { return fmt.Sprintf("refs/heads/target-%d", i) }

// apart requires that the times between the first and the last thing that the server saw of each run do not overlap for runs of
// one ref.
func apart(t *testing.T, repo stack.RemoteRepo, runs map[string]queue.Run) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(repo.Dir, pushes))
	require.NoError(t, err)
	type interval struct{ first, last int64 }
	seen := map[string]interval{}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		require.Len(t, fields, 4)
		at, err := strconv.ParseInt(fields[0], 10, 64)
		require.NoError(t, err)
		for id := range runs {
			if strings.Contains(fields[3], id) { // the fence: set before the session, moved with the branch
				i, found := seen[id]
				if !found {
					i.first = at
				}
				i.last = at
				seen[id] = i
			}
		}
	}
	of := map[string][]interval{}
	for id, i := range seen {
		of[runs[id].TargetRef] = append(of[runs[id].TargetRef], i)
	}
	require.GreaterOrEqual(t, len(of), branches, "the server saw the fence of a run on every branch")
	for ref, intervals := range of {
		slices.SortFunc(intervals, func(a, b interval) int { return cmp.Compare(a.first, b.first) })
		for i := 1; i < len(intervals); i++ {
			require.Less(t, intervals[i-1].last, intervals[i].first, "%s of %s", ref, repo.Name)
		}
	}
}

func nothingLeft(t *testing.T, d *deployment.Deployment, runs map[string]queue.Run) {
	t.Helper()
	engine, err := client.NewClientWithOpts(client.WithHost(d.Stack.DockerHost()), client.WithAPIVersionNegotiation())
	require.NoError(t, err)
	defer func() { require.NoError(t, engine.Close()) }()
	left, err := engine.ContainerList(t.Context(), container.ListOptions{
		All: true, Filters: filters.NewArgs(filters.Arg("label", "harness.engine="+d.Config.Engine.Name)),
	})
	require.NoError(t, err)
	require.Empty(t, left)
	for id := range runs {
		require.Empty(t, d.Stack.LiveTokens(t, "harness_run", id))
	}
}
