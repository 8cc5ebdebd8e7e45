package deployment

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness"
	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/profiles"
	"github.com/rein-aharness/harness/queue"
	"github.com/rein-aharness/harness/repotx"
	"github.com/rein-aharness/harness/tests/stack"
)

// Deployment is one deployment: everything that one database's workers share.
type Deployment struct {
	Stack  *stack.Stack
	Config harness.Config
	File   string // the configuration file that Config was read from
	Dir    string
}

// Settings of a deployment that tests vary. Zero fields take the defaults.
type Settings struct {
	Stack                        *stack.Stack // with parts of its own, if the test breaks them; default the running one
	TTLSeconds, HeartbeatSeconds int          // default 30 and 10
	Concurrency                  int          // default 2
	WaiveManifest                bool         // in the deployment's policy
	Extra                        string       // more YAML for the configuration file
}

// New makes a deployment on the running stack.
func New(t testing.TB, s Settings) *Deployment {
	t.Helper()
	st := s.Stack
	if st == nil {
		st = stack.Load(t)
	}
	d := &Deployment{Stack: st, Dir: t.TempDir()}
	if s.TTLSeconds == 0 {
		s.TTLSeconds, s.HeartbeatSeconds = 30, 10
	}
	if s.Concurrency == 0 {
		s.Concurrency = 2
	}
	url := st.DatabaseFrom(t, "deployment", queue.Migrate)
	d.write(t, "database.url", url)
	trust, err := st.Vault.TrustFile()
	require.NoError(t, err)
	d.write(t, "trust.yaml", trust)
	file := fmt.Sprintf(`
database: {url_file: database.url}
engine: {name: %s, host: %q, keepalive_seconds: 1, init_binary: %q}
vault:
  address: %q
  app_role: {role_id_file: %q, secret_id_file: %q}
  token_role: %q
signing: {path: secret/data/harness/signing, policy: harness-signing, trust_file: trust.yaml}
git: {ca_file: %q, known_hosts_file: %q, cache_dir: baselines}
lease: {ttl_seconds: %d, heartbeat_seconds: %d}
worker: {id: worker-1, concurrency: %d, drain_seconds: 30}
policy: {waive_manifest: %t}
catalog: catalog
%s`, engineName(t), st.DockerHost(), Binary(t), st.Vault.Address, st.Vault.RoleIDFile, st.Vault.SecretIDFile, st.Vault.TokenRole,
		st.Git.CAFile, st.Git.KnownHostsFile, s.TTLSeconds, s.HeartbeatSeconds, s.Concurrency, s.WaiveManifest, s.Extra)
	d.File = d.write(t, "harness.yaml", file)
	config, err := harness.ReadConfig(d.File)
	require.NoError(t, err)
	d.Config = config
	// Databases of one template would make the same run ids, and sandboxes of the same name on the one engine.
	d.Forge(t, `UPDATE control SET salt = gen_random_uuid()`)
	return d
}

// engineName gives each test an engine name of its own, so that its janitor leaves the sandboxes of others alone.
func engineName(t testing.TB) string {
	sum := sha256.Sum256([]byte(t.Name() + time.Now().String()))
	return "e" + hex.EncodeToString(sum[:6])
}

func (d *Deployment) write(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(d.Dir, name)
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// Open opens the deployment in this process, with Vault and engine.
func (d *Deployment) Open(t testing.TB, options harness.Options) *harness.Harness {
	t.Helper()
	options.Vault, options.Engine = true, true
	h, err := harness.Open(t.Context(), d.Config, options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.Close(context.WithoutCancel(t.Context()))) })
	return h
}

// Profile is a complete profile of the command rein: argv in the named image of the stack, which may change everything, with no
// session credential.
func (d *Deployment) Profile(t testing.TB, name, image string, argv ...string) *profiles.Profile {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root(t), "configs", "catalog", "gofumpt.yaml"))
	require.NoError(t, err)
	p, err := profiles.Parse(data)
	require.NoError(t, err)
	p.Name, p.Rein.Argv, p.Sandbox.Image = name, argv, d.Stack.Image(t, image)
	p.Grant = repotx.Bounds{Paths: []string{"**"}, Symlinks: true}
	return p
}

// Publish publishes a profile and has a readiness check find it ready for a repository.
func (d *Deployment) Publish(t testing.TB, h *harness.Harness, p *profiles.Profile, repo stack.RemoteRepo) profiles.Ref {
	t.Helper()
	ref, _, err := h.Profiles().Publish(t.Context(), p, "test")
	require.NoError(t, err)
	readiness, err := h.CheckProfile(t.Context(), ref, harness.CheckOptions{Repository: repo.HTTPURL})
	require.NoError(t, err)
	require.Equal(t, profiles.StateReady, readiness.State, "%+v", readiness)
	return ref
}

// Manifest is a repository's manifest that allows everything but what is protected, on every branch.
const Manifest = "version: 1\ntarget_refs: [\"refs/heads/**\"]\npaths: [\"**\"]\nsymlinks: true\nprotected: []\n"

// Request asks for one run of a profile on a repository's main branch.
func Request(trigger string, ref profiles.Ref, repo stack.RemoteRepo) queue.Request {
	return queue.Request{
		Version: 1, Definition: "test", TriggerKey: trigger, Repository: repo.HTTPURL, BaseRef: "refs/heads/main",
		TargetRef: "refs/heads/main", Task: "Do what the profile says.", Profile: ref.String(),
		Grant: repotx.Bounds{Paths: []string{"**"}, Symlinks: true},
	}
}

// Finish emits a request and serves the queue in this process until its run is over, or waits for the remote.
func Finish(t testing.TB, h *harness.Harness, r queue.Request) queue.Run {
	t.Helper()
	run, _, err := h.Emit(t.Context(), r, "")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- h.Work(ctx) }()
	run, err = h.Wait(t.Context(), run.ID)
	stop()
	require.NoError(t, <-served)
	require.NoError(t, err)
	return run
}

// Verify requires that everything about a run verifies, offline and at its remote.
func Verify(t testing.TB, h *harness.Harness, run string) evidence.Report {
	t.Helper()
	trust, err := h.Trust()
	require.NoError(t, err)
	report, err := h.Verify(t.Context(), run, harness.VerifyOptions{Trust: trust, Remote: true})
	require.NoError(t, err)
	require.True(t, report.OK(), "%+v", report)
	return report
}

func root(t testing.TB) string {
	t.Helper()
	dir, err := stack.Checkout()
	require.NoError(t, err)
	return strings.TrimSuffix(dir, "/")
}
