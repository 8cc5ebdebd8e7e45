package hostile_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rein-aharness/harness"
	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/queue"
	"github.com/rein-aharness/harness/rein/credential"
	"github.com/rein-aharness/harness/repotx"
	"github.com/rein-aharness/harness/sandbox"
	"github.com/rein-aharness/harness/tests/deployment"
	"github.com/rein-aharness/harness/tests/stack"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const trunk = "refs/heads/main"

// manifest lets a run change what lies in src, any Go file, and the links of that part.
const manifest = "version: 1\ntarget_refs: [\"refs/heads/**\"]\npaths: [\"src/**\", \"**/*.go\", \".forgery\"]\nsymlinks: true\nprotected: []\n"

// baseline is what each repository begins with.
func baseline() map[string]string {
	return map[string]string{
		".harness.yaml": manifest, ".gitignore": "*.tmp\n", ".github/workflows/ci.yml": "on: push\n", "deny/secret.txt": "not granted\n",
		"src/a.txt": "as it is\n", "src/crlf.txt": "one\r\ntwo\r\n", "src/tool.sh": "#!/bin/sh\n", "src/moved.txt": "moved\n",
		"src/folder/only.txt": "only\n", "é.go": "package e\n",
	}
}

// scene is one deployment on which many sessions misbehave at once.
type scene struct {
	*deployment.Deployment
	h      *harness.Harness
	secret credential.Route
}

const (
	secretValue = "hostile-canary-5f0c/+=&\"é"
	secretFile  = credential.FileDir + "/token"
)

// set opens a deployment whose sandboxes have the binary as their init; the empty string leaves the released one.
func set(t *testing.T, init string) *scene {
	t.Helper()
	d := deployment.New(t, deployment.Settings{Concurrency: 4})
	if init != "" {
		d.Config.Engine.InitBinary = init
	}
	s := &scene{Deployment: d, h: d.Open(t, harness.Options{})}
	path, policy := d.Stack.Credential(t, map[string]string{"token": secretValue})
	s.secret = credential.Route{
		Revision: "token@1.0.0", Path: path, Policy: policy, Field: "token", TTLSeconds: 300,
		Inject: credential.Injection{Kind: credential.InjectFile, Target: "token"},
	}
	deployment.Serve(t, s.h)
	return s
}

// act is one session: what it does, in which runtime, and with which rights.
type act struct {
	runtime string // default runc
	secret  bool   // it is given a credential
	seconds int    // its time; default 60
	do      []string
}

// perform has a governed run of the act on a repository of its own and returns both when it is over.
func (s *scene) perform(t *testing.T, a act, edit ...func(stack.RemoteRepo)) (queue.Run, stack.RemoteRepo) {
	t.Helper()
	repo := s.Stack.Repository(t, "hostile", baseline())
	for _, e := range edit {
		e(repo)
	}
	_, subtest, _ := strings.Cut(t.Name(), "/")
	name := "p-" + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' {
			return r
		}
		return '-'
	}, strings.ToLower(subtest))
	p := s.Profile(t, name, "hostile", append([]string{"/usr/local/bin/toolbox"}, a.do...)...)
	p.Rein.TimeoutSeconds = 60
	if a.seconds > 0 {
		p.Rein.TimeoutSeconds = a.seconds
	}
	p.Sandbox.MemoryBytes, p.Sandbox.Pids = 256<<20, 64
	p.Sandbox.WorkspaceBytes, p.Sandbox.WorkspaceInodes, p.Sandbox.OutputBytes = 32<<20, 4096, 1<<20
	if a.runtime != "" {
		p.Sandbox.Runtime = a.runtime
	}
	if p.Sandbox.Runtime == sandbox.RuntimeRunsc {
		p.Sandbox.Required = nil
	}
	if a.secret {
		p.Credentials = []credential.Route{s.secret}
	}
	p.Limits.ChangeEntries, p.Limits.ChangeBytes, p.Limits.ChangeFileBytes = 400, 2<<20, 1<<20
	p.Limits.ChangeDepth, p.Limits.ChangePathBytes = 12, 512
	request := deployment.Request(name, s.Vouch(t, s.h, p), repo)
	run, _, err := s.h.Emit(t.Context(), request, "")
	require.NoError(t, err)
	run, err = s.h.Wait(t.Context(), run.ID)
	require.NoError(t, err)
	return run, repo
}

// refused requires that a run failed with the code, and that the remote has nothing of it but a closed fence: the branch is where it
// was, and no object came that the fence does not need.
func (s *scene) refused(t *testing.T, run queue.Run, repo stack.RemoteRepo, code evidence.Code) {
	t.Helper()
	require.Equal(t, code, run.Code, "%s at %s", run.State, run.FailedStage)
	require.Equal(t, evidence.StateFailed, run.State)
	require.Equal(t, evidence.EffectNotApplied, run.Effect)
	fence, err := repotx.FenceRef(run.ID)
	require.NoError(t, err)
	require.Equal(t, map[string]string{trunk: repo.Baseline, fence: repotx.TombstoneValue(run.ID, run.Epoch)}, repo.Refs(t))
	require.Equal(t, "1", strings.TrimSpace(repo.Git(t, "rev-list", "--count", trunk)))
	require.Empty(t, repo.Files(t, fence))
	// Whatever was pushed is there, reachable or not: the baseline's, the fence's tag, and its tombstone of the empty tree.
	commits := strings.Count(repo.Git(t, "cat-file", "--batch-all-objects", "--batch-check=%(objecttype)"), "commit")
	require.Equal(t, 2, commits)
	deployment.Verify(t, s.h, run.ID)
}

// landed requires that a run landed as one commit on the baseline, in a repository that stock git finds whole.
func (s *scene) landed(t *testing.T, run queue.Run, repo stack.RemoteRepo) {
	t.Helper()
	require.Equal(t, evidence.StateCompleted, run.State, "%s at %s", run.Code, run.FailedStage)
	require.Equal(t, evidence.EffectConfirmed, run.Effect)
	require.Equal(t, []string{repo.Ref(t, trunk), repo.Baseline}, repo.Log(t, trunk))
	repo.Git(t, "fsck", "--strict", "--full")
	deployment.Verify(t, s.h, run.ID)
}

// unchanged requires that a run completed without a change.
func (s *scene) unchanged(t *testing.T, run queue.Run, repo stack.RemoteRepo) {
	t.Helper()
	require.Equal(t, evidence.StateCompleted, run.State, "%s at %s", run.Code, run.FailedStage)
	require.Equal(t, evidence.OutcomeNoChange, run.Disposition)
	require.Equal(t, repo.Baseline, repo.Ref(t, trunk))
	deployment.Verify(t, s.h, run.ID)
}

// then joins the toolbox's commands into one.
func then(commands ...[]string) (joined []string) {
	for i, command := range commands {
		if i > 0 {
			joined = append(joined, ";")
		}
		joined = append(joined, command...)
	}
	return joined
}

// write is a session that writes a file, in folders that it makes.
func write(path string) []string {
	folder, _, found := cutLast(path)
	if !found {
		return []string{"write", quoted(path), "hostile"}
	}
	return then([]string{"mkdir", quoted(folder)}, []string{"write", quoted(path), "hostile"})
}

func cutLast(path string) (folder, name string, found bool) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return "", path, false
	}
	return path[:i], path[i+1:], true
}

// quoted is a text as the toolbox takes any bytes.
func quoted(text string) string {
	var b strings.Builder
	b.WriteString("q:")
	for i := range len(text) {
		if c := text[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' {
			fmt.Fprintf(&b, `\x%02x`, c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
