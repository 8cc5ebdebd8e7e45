package bench_test

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness"
	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/profiles"
	"github.com/rein-aharness/harness/tests/deployment"
	"github.com/rein-aharness/harness/tests/stack"
)

// pairs is how many runs of each kind are compared, after one of each that is not.
const pairs = 15

type scene struct {
	*deployment.Deployment
	h    *harness.Harness
	repo stack.RemoteRepo
	ref  profiles.Ref
}

// set makes a deployment with one worker process, on a copy of the demo's repository.
func set(b *testing.B) *scene {
	b.Helper()
	d := deployment.New(b, deployment.Settings{})
	s := &scene{Deployment: d, h: d.Open(b, harness.Options{})}
	s.repo = d.Stack.Repository(b, "bench", map[string]string{"empty": ""})
	original := filepath.Join(d.Stack.Git.Root, d.Stack.Demo.Name)
	s.repo.Git(b, "fetch", "--quiet", "--force", original, d.Stack.Demo.Baseline+":refs/heads/main")
	p := d.Profile(b, "gofumpt", "codemod", "/usr/local/bin/gofumpt", "-l", "-w", ".")
	s.ref = d.Publish(b, s.h, p, s.repo)
	d.Worker(b, "worker-1", deployment.WorkerSettings{})
	return s
}

func (s *scene) branch(b *testing.B, name string) string {
	b.Helper()
	ref := "refs/heads/" + name
	s.repo.Git(b, "update-ref", ref, s.Stack.Demo.Baseline)
	return ref
}

// governed is one run from its emission until it is closed, teardown included.
func (s *scene) governed(b *testing.B, name string) (time.Duration, string) {
	b.Helper()
	request := deployment.Request(name, s.ref, s.repo)
	request.BaseRef = s.branch(b, name)
	request.TargetRef = request.BaseRef
	request.Grant.Paths = []string{"**/*.go"}
	request.Grant.Symlinks = false
	began := time.Now()
	run, _, err := s.h.Emit(b.Context(), request, "")
	require.NoError(b, err)
	run, err = s.h.Wait(b.Context(), run.ID)
	took := time.Since(began)
	require.NoError(b, err)
	require.Equal(b, evidence.StateCompleted, run.State, "%s %s", run.FailedStage, run.Code)
	s.changed(b, request.BaseRef)
	return took, run.ID
}

// ungoverned is the same by the script.
func (s *scene) ungoverned(b *testing.B, name string) time.Duration {
	b.Helper()
	ref := s.branch(b, name)
	cmd := exec.Command("./ungoverned.sh", s.Stack.Image(b, "codemod"), s.repo.HTTPURL, name, s.Stack.Git.Username, s.Stack.Git.PasswordFile)
	cmd.Env = append(os.Environ(), "DOCKER_HOST="+s.Stack.DockerHost())
	began := time.Now()
	output, err := cmd.CombinedOutput()
	took := time.Since(began)
	require.NoError(b, err, "%s", output)
	s.changed(b, ref)
	return took
}

// changed requires that exactly one commit has landed on a branch.
func (s *scene) changed(b *testing.B, ref string) {
	b.Helper()
	require.Equal(b, "1", strings.TrimSpace(s.repo.Git(b, "rev-list", "--count", s.Stack.Demo.Baseline+".."+ref)))
}

// BenchmarkGovernedRun takes its own fixed number of pairs; b.N means nothing to it.
func BenchmarkGovernedRun(b *testing.B) {
	s := set(b)
	s.governed(b, "warm-governed")
	s.ungoverned(b, "warm-ungoverned")
	var governed, ungoverned []time.Duration
	spent := map[evidence.Stage]time.Duration{}
	var whole time.Duration
	for i := range pairs {
		took, run := s.governed(b, fmt.Sprintf("governed-%d", i))
		governed = append(governed, took)
		ungoverned = append(ungoverned, s.ungoverned(b, fmt.Sprintf("ungoverned-%d", i)))
		facts, err := s.h.Store().Facts(b.Context(), run)
		require.NoError(b, err)
		whole += byStage(b, facts, spent)
	}
	b.ReportMetric(0, "ns/op") // leaves it out
	b.ReportMetric(milliseconds(median(governed)), "governed-ms")
	b.ReportMetric(milliseconds(median(ungoverned)), "ungoverned-ms")
	b.ReportMetric(float64(median(governed))/float64(median(ungoverned)), "ratio")
	for stage, took := range spent {
		b.ReportMetric(100*float64(took)/float64(whole), "share-"+string(stage)+"-%")
	}
}

// byStage adds the time before each fact to that of the fact's stage, and gives all of it.
func byStage(b *testing.B, facts []evidence.Fact, spent map[evidence.Stage]time.Duration) (whole time.Duration) {
	b.Helper()
	var last time.Time
	for i, fact := range facts {
		now, err := time.Parse(time.RFC3339Nano, fact.At)
		require.NoError(b, err)
		if i > 0 {
			spent[fact.Stage] += now.Sub(last)
			whole += now.Sub(last)
		}
		last = now
	}
	return whole
}

func median(values []time.Duration) time.Duration {
	return slices.SortedFunc(slices.Values(values), cmp.Compare)[len(values)/2]
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
