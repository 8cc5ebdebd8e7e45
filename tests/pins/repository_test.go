package pins_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness"
	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/profiles"
	"github.com/rein-aharness/harness/queue"
	"github.com/rein-aharness/harness/repotx"
	"github.com/rein-aharness/harness/tests/deployment"
)

// A33, A36: every spelling of a repository's URL is one repository: one identity in row, contract and evidence, and one lock for its
// ref.
func TestEverySpellingOfAURLIsOneRepository(t *testing.T) {
	t.Parallel()
	p := open(t, deployment.Settings{Concurrency: 4}, harness.Options{})
	ref := p.format(t, "spelled")
	plain := p.repo.HTTPURL
	spellings := []string{
		plain, plain + "/", strings.TrimSuffix(plain, ".git"), strings.Replace(plain, "http://", "HTTP://", 1), strings.Replace(plain, "/place", "//place", 1),
	}
	var runs []queue.Run
	for i, url := range spellings {
		repository, err := repotx.Canonical(url)
		if err != nil {
			require.Equal(t, evidence.CodeRepositoryMalformed, evidence.CodeOf(err), url)
			continue // a spelling that is none is refused, which leaves one identity too
		}
		run := p.emit(t, fmt.Sprintf("spelling %d", i), ref, func(r *queue.Request) {
			r.Repository, r.TargetRef = url, trunk
		})
		require.Equal(t, repository.ID, run.Repository)
		runs = append(runs, run)
	}
	require.GreaterOrEqual(t, len(runs), 4)
	deployment.Serve(t, p.h)
	landed := 0
	for _, run := range runs {
		run = p.wait(t, run)
		require.Equal(t, runs[0].Repository, run.Repository)
		require.Equal(t, runs[0].Repository, fact[evidence.Emitted](t, p.h, run).Repository)
		if run.Effect == evidence.EffectConfirmed {
			landed++
		} else {
			require.Equal(t, evidence.CodeBaselineMoved, run.Code)
		}
	}
	require.Equal(t, 1, landed)
	require.Len(t, p.repo.Log(t, trunk), 2)
}

// A39, A40, CASES 39: of two runs with one baseline on one ref exactly one lands; the other ends baseline_moved, not_applied.
func TestOfTwoRunsOnOneBaselineExactlyOneLands(t *testing.T) {
	t.Parallel()
	p := open(t, deployment.Settings{}, harness.Options{})
	ref := p.format(t, "racing")
	onTrunk := func(r *queue.Request) { r.TargetRef = trunk }
	runs := []queue.Run{p.emit(t, "one", ref, onTrunk), p.emit(t, "two", ref, onTrunk)}
	require.Equal(t, runs[0].Baseline, runs[1].Baseline)
	deployment.Serve(t, p.h)
	byEffect := map[evidence.Effect]queue.Run{}
	for _, run := range runs {
		run = p.wait(t, run)
		byEffect[run.Effect] = run
		deployment.Verify(t, p.h, run.ID)
	}
	require.Equal(t, evidence.StateCompleted, byEffect[evidence.EffectConfirmed].State)
	late := byEffect[evidence.EffectNotApplied]
	require.Equal(t, evidence.StateFailed, late.State)
	require.Equal(t, evidence.CodeBaselineMoved, late.Code)
	require.Len(t, p.repo.Log(t, trunk), 2)
	require.Zero(t, p.engine.Created(t, late.ID), "nothing is started on a baseline that has moved")
	_, code := p.Command(t, "runs", "wait", late.ID)
	require.Equal(t, int(evidence.ExitNotApplied), code)
}

// A39, A41, CASES 30, 39: somebody else's commit, pushed while the session went on, is not overwritten: the remote compares.
func TestBaselineThatMovesDuringTheSessionIsRefusedByTheRemote(t *testing.T) {
	t.Parallel()
	watching := &watcher{steps: map[harness.Progress]func(){}}
	p := open(t, deployment.Settings{}, harness.Options{Watch: watching.watch})
	run := p.emit(t, "overtaken", p.format(t, "overtaken"), func(r *queue.Request) { r.TargetRef = trunk })
	var theirs string
	watching.on(run.ID, harness.Progress{Stage: evidence.StageAccept}, func() {
		theirs = p.repo.Commit(t, trunk, "Meanwhile", map[string]string{"c.go": "package a\n"})
	})
	deployment.Serve(t, p.h)
	run = p.wait(t, run)
	require.Equal(t, evidence.StateFailed, run.State)
	require.Equal(t, evidence.CodeBaselineMoved, run.Code, "%s", run.FailedStage)
	require.Equal(t, evidence.EffectNotApplied, run.Effect)
	require.Equal(t, theirs, p.repo.Ref(t, trunk))
	fence, err := repotx.FenceRef(run.ID)
	require.NoError(t, err)
	require.Equal(t, repotx.TombstoneValue(run.ID, run.Epoch), p.repo.Ref(t, fence))
	deployment.Verify(t, p.h, run.ID)
}

// A33, B35: what may change is what definition, profile and the repository's manifest all allow; a manifest that is missing and a
// remote without fences are refused unless waived, and a waiver shows in the evidence and its statement.
func TestGrantIsTheIntersectionAndWaiversShow(t *testing.T) {
	t.Parallel()
	manifest := func(refs, paths string) map[string]string {
		return map[string]string{
			".harness.yaml": fmt.Sprintf("version: 1\ntarget_refs: [%q]\npaths: [%q]\nsymlinks: false\nprotected: []\n", refs, paths),
			"a.go":          files["a.go"],
		}
	}
	strict := open(t, deployment.Settings{Concurrency: 3}, harness.Options{})
	lax := open(t, deployment.Settings{Concurrency: 3, WaiveManifest: true}, harness.Options{})
	for _, p := range []*place{strict, lax} {
		deployment.Serve(t, p.h)
	}
	waivable := func(profile *profiles.Profile) { profile.Controls = profiles.Controls{} }
	for _, c := range []struct {
		name     string
		place    *place
		files    map[string]string
		profile  func(*profiles.Profile)
		request  func(*queue.Request)
		unfenced bool
		code     evidence.Code
		effect   evidence.Effect
		labels   []string
	}{
		{name: "all allow it", place: strict, files: manifest("refs/heads/**", "**/*.go"), effect: evidence.EffectConfirmed},
		{
			name: "outside the manifest", place: strict, files: manifest("refs/heads/**", "docs/**"),
			code: evidence.CodePathNotGranted, effect: evidence.EffectNotApplied,
		},
		{
			name: "outside the profile", place: strict, files: manifest("refs/heads/**", "**"),
			profile: func(profile *profiles.Profile) { profile.Grant.Paths = []string{"b.go"} },
			code:    evidence.CodePathNotGranted, effect: evidence.EffectNotApplied,
		},
		{
			name: "outside the definition", place: strict, files: manifest("refs/heads/**", "**"),
			request: func(r *queue.Request) { r.Grant.Paths = []string{"b.go"} },
			code:    evidence.CodePathNotGranted, effect: evidence.EffectNotApplied,
		},
		{
			name: "ref outside the manifest", place: strict, files: manifest("refs/heads/bots/**", "**"),
			code: evidence.CodeRefNotGranted, effect: evidence.EffectNotDispatched,
		},
		{
			name: "no manifest", place: strict, files: map[string]string{"a.go": files["a.go"]}, profile: waivable,
			code: evidence.CodeManifestMissing, effect: evidence.EffectNotDispatched,
		},
		{
			name: "a manifest that is none", place: strict, files: map[string]string{"a.go": files["a.go"], ".harness.yaml": "version: 9\n"},
			code: evidence.CodeManifestMalformed, effect: evidence.EffectNotDispatched,
		},
		{
			name: "no manifest and waived", place: lax, files: map[string]string{"a.go": files["a.go"]}, profile: waivable,
			effect: evidence.EffectConfirmed, labels: []string{"manifest waived"},
		},
		{
			name: "a manifest although waived", place: lax, files: manifest("refs/heads/**", "docs/**"), profile: waivable,
			code: evidence.CodePathNotGranted, effect: evidence.EffectNotApplied,
		},
		{
			name: "no fences", place: strict, files: manifest("refs/heads/**", "**"), unfenced: true, profile: waivable,
			code: evidence.CodeRemoteUnsupported, effect: evidence.EffectNotDispatched,
		},
		{
			name: "no fences and waived", place: strict, files: manifest("refs/heads/**", "**"), unfenced: true, profile: waivable,
			request: func(r *queue.Request) { r.WaiveFencing = true }, effect: evidence.EffectConfirmed, labels: []string{"fencing waived"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := c.place
			repo := p.Stack.Repository(t, "granted", c.files)
			if c.unfenced {
				repo.Git(t, "config", "receive.advertiseAtomic", "false")
			}
			if c.profile == nil {
				c.profile = func(*profiles.Profile) {}
			}
			request := deployment.Request(c.name, p.format(t, strings.ReplaceAll("p "+c.name, " ", "-"), c.profile), repo)
			if c.request != nil {
				c.request(&request)
			}
			run, _, err := p.h.Emit(t.Context(), request, "")
			require.NoError(t, err)
			run = p.wait(t, run)
			require.Equal(t, c.code, run.Code, "%s", run.FailedStage)
			require.Equal(t, c.effect, run.Effect)
			report := deployment.Verify(t, p.h, run.ID)
			shown := fmt.Sprint(report.Checks)
			for _, label := range c.labels {
				require.Contains(t, shown, label)
			}
			if c.effect == evidence.EffectConfirmed {
				require.Len(t, repo.Log(t, trunk), 2)
				seen := fact[evidence.Preflighted](t, p.h, run)
				require.Equal(t, len(c.labels) > 0, seen.Manifest == "waived" || seen.Fencing == "waived")
				return
			}
			require.Equal(t, repo.Baseline, repo.Ref(t, trunk))
			if c.effect == evidence.EffectNotDispatched {
				require.Zero(t, p.engine.Created(t, run.ID))
			}
		})
	}
}

// A40, A48, CASES 29: a session that changes nothing completes, is labelled so, leaves a closed fence and no commit.
func TestSessionThatChangesNothingCompletesWithoutACommit(t *testing.T) {
	t.Parallel()
	p := open(t, deployment.Settings{}, harness.Options{})
	ref := p.format(t, "idle", func(profile *profiles.Profile) { profile.Rein.Argv = []string{"/usr/local/bin/gofumpt", "-l", "a.go"} })
	run := deployment.Finish(t, p.h, deployment.Request("idle", ref, p.repo))
	require.Equal(t, evidence.StateCompleted, run.State, "%s %s", run.FailedStage, run.Code)
	require.Equal(t, evidence.OutcomeNoChange, run.Disposition)
	require.Equal(t, evidence.EffectNotDispatched, run.Effect)
	fence, err := repotx.FenceRef(run.ID)
	require.NoError(t, err)
	require.Equal(t, map[string]string{trunk: p.repo.Baseline, fence: repotx.TombstoneValue(run.ID, run.Epoch)}, p.repo.Refs(t))
	deployment.Verify(t, p.h, run.ID)
	out, code := p.Command(t, "runs", "wait", run.ID, "--json")
	require.Zero(t, code)
	require.Contains(t, out, string(evidence.OutcomeNoChange))
}

// A15: a hundred emissions of one trigger key, and as many commands as the machine takes, make one run and one job; another request
// under the same key is refused.
func TestOneTriggerKeyMakesOneRun(t *testing.T) {
	t.Parallel()
	p := open(t, deployment.Settings{}, harness.Options{})
	ref := p.format(t, "triggered")
	request := deployment.Request("once", ref, p.repo)
	file := p.definition(t, request)
	type emission struct {
		id      string
		created bool
		err     error
	}
	emissions := make(chan emission, 104)
	var racing sync.WaitGroup
	for range 100 {
		racing.Go(func() {
			run, created, err := p.h.Emit(t.Context(), request, "")
			emissions <- emission{run.ID, created, err}
		})
	}
	for range 4 {
		racing.Go(func() {
			out, code := p.Command(t, "emit", "-f", file, "--trigger-key", "once", "--json")
			var said struct {
				Created bool
				Run     struct{ ID string }
			}
			err := json.Unmarshal([]byte(out), &said)
			if code != 0 {
				err = fmt.Errorf("exit code %d", code)
			}
			emissions <- emission{said.Run.ID, said.Created, err}
		})
	}
	racing.Wait()
	close(emissions)
	created, ids := 0, map[string]bool{}
	for e := range emissions {
		require.NoError(t, e.err)
		ids[e.id] = true
		if e.created {
			created++
		}
	}
	require.Equal(t, 1, created)
	require.Len(t, ids, 1)
	require.Equal(t, 1, p.count(t, `SELECT count(*) FROM ops_run`))
	require.Equal(t, 1, p.count(t, `SELECT count(*) FROM river_job`))

	request.Task = "Something else."
	_, _, err := p.h.Emit(t.Context(), request, "")
	require.Equal(t, evidence.CodeTriggerConflict, evidence.CodeOf(err), "%v", err)
	_, code := p.Command(t, "emit", "-f", p.definition(t, request), "--trigger-key", "once")
	require.Equal(t, int(evidence.ExitRefused), code)
	require.Equal(t, 1, p.count(t, `SELECT count(*) FROM ops_run`))
}

// A46, A47, CASES 30: `runs retry` emits one successor of a run that changed nothing, with the same operation key and a baseline of
// its own; a run that is not over, or has landed, has none.
func TestRetryEmitsOneSuccessorOfARunThatChangedNothing(t *testing.T) {
	t.Parallel()
	p := open(t, deployment.Settings{}, harness.Options{})
	ref := p.format(t, "retried")
	onTrunk := func(r *queue.Request) { r.TargetRef = trunk }
	first := p.emit(t, "to retry", ref, onTrunk)
	moved := p.repo.Commit(t, trunk, "Meanwhile", map[string]string{"c.go": "package a\n"})
	_, code := p.Command(t, "runs", "retry", first.ID)
	require.Equal(t, int(evidence.ExitRefused), code, "it is not over")

	deployment.Serve(t, p.h)
	first = p.wait(t, first)
	require.Equal(t, evidence.CodeBaselineMoved, first.Code)
	out, code := p.Command(t, "runs", "retry", first.ID, "--wait", "--json")
	require.Zero(t, code, out)
	var said struct {
		Created bool
		Run     struct{ ID string }
	}
	require.NoError(t, json.Unmarshal([]byte(out), &said))
	require.True(t, said.Created)
	next, err := p.h.Store().Run(t.Context(), said.Run.ID)
	require.NoError(t, err)
	require.Equal(t, first.ID, next.Supersedes)
	require.Equal(t, first.OperationKey, next.OperationKey)
	require.Equal(t, moved, next.Baseline)
	require.Equal(t, evidence.EffectConfirmed, next.Effect)
	require.Len(t, p.repo.Log(t, trunk), 3)
	deployment.Verify(t, p.h, next.ID)

	out, code = p.Command(t, "runs", "retry", first.ID, "--json")
	require.Zero(t, code)
	require.Contains(t, out, next.ID, "asked twice, there is one successor")
	_, code = p.Command(t, "runs", "retry", first.ID, "--trigger-key", "another")
	require.Equal(t, int(evidence.ExitRefused), code, "it has a successor already")
	_, code = p.Command(t, "runs", "retry", next.ID)
	require.Equal(t, int(evidence.ExitRefused), code, "it has landed")
	require.Equal(t, 2, p.count(t, `SELECT count(*) FROM ops_run`))
}

// A13: the attended command refuses to run where nobody attends: without a terminal both the flag and a name are needed.
func TestAttendedCommandRefusesToRunUnattended(t *testing.T) {
	t.Parallel()
	p := open(t, deployment.Settings{}, harness.Options{})
	file := p.definition(t, deployment.Request("attended", p.format(t, "attended"), p.repo))
	for _, arguments := range [][]string{nil, {"--operator", "ada"}, {"--attended"}} {
		_, code := p.Command(t, append([]string{"run", "-f", file}, arguments...)...)
		require.Equal(t, int(evidence.ExitUsage), code, arguments)
	}
	require.Zero(t, p.count(t, `SELECT count(*) FROM ops_run`))

	out, code := p.Command(t, "run", "-f", file, "--attended", "--operator", "ada", "--json")
	require.Zero(t, code, out)
	runs, err := p.h.Store().Runs(t.Context(), queue.Filter{})
	require.NoError(t, err)
	require.Len(t, runs, 1)
	require.Equal(t, "ada", runs[0].Operator)
	require.Equal(t, evidence.EffectConfirmed, runs[0].Effect)
	report := deployment.Verify(t, p.h, runs[0].ID)
	require.Contains(t, fmt.Sprint(report.Checks), "attended")
}
