package faults_test

import (
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/docker/docker/client"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness"
	"github.com/rein-aharness/harness/profiles"
	"github.com/rein-aharness/harness/queue"
	"github.com/rein-aharness/harness/rein/credential"
	"github.com/rein-aharness/harness/tests/deployment"
	"github.com/rein-aharness/harness/tests/faults"
	"github.com/rein-aharness/harness/tests/stack"
)

const (
	main = "refs/heads/main"
	// within bounds everything that is to come about by itself: reaching the boundary, the end of the run, and that nothing is left.
	within = 60 * time.Second
	// disturbed is how connections to the database that faults may end call themselves.
	disturbed = "disturbed"
)

// scene is the deployment of one cell: its workers reach Postgres, Vault and git by ways on which faults are made.
type scene struct {
	*deployment.Deployment
	h       *harness.Harness // sees what is, and emits, by ways without faults but for git's
	db      *pgxpool.Pool    // without faults
	engine  *client.Client
	repo    stack.RemoteRepo
	ref     profiles.Ref
	server  *gitServer
	ways    map[faults.Part]*deployment.Proxy
	hold    string // the file that is there while a worker is held
	workers []*deployment.Process
	run     queue.Run
}

func set(t *testing.T) *scene {
	t.Helper()
	return setOn(t, plan(t, nil), "a.txt", "as it is\n", "hostile", "/usr/local/bin/toolbox", "write", "a.txt", "changed")
}

// plan makes a deployment whose leases are short; st is the stack that it is on, if not the running one.
func plan(t *testing.T, st *stack.Stack) *deployment.Deployment {
	t.Helper()
	return deployment.New(t, deployment.Settings{Stack: st, TTLSeconds: int(faults.TTL / time.Second), HeartbeatSeconds: 1})
}

// setOn sets the scene on a deployment, with a repository of one file and a profile of what changes it, in an image.
func setOn(t *testing.T, d *deployment.Deployment, file, content, image string, argv ...string) *scene {
	t.Helper()
	s := &scene{Deployment: d, h: d.Open(t, harness.Options{}), hold: filepath.Join(d.Dir, "held")}
	direct, err := d.Config.Database.URL()
	require.NoError(t, err)
	s.db, err = pgxpool.New(t.Context(), direct)
	require.NoError(t, err)
	t.Cleanup(s.db.Close)
	s.engine, err = client.NewClientWithOpts(client.WithHost(d.Stack.DockerHost()), client.WithAPIVersionNegotiation())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.engine.Close()) })

	s.repo = d.Stack.Repository(t, "faults", map[string]string{".harness.yaml": deployment.Manifest, file: content})
	s.server = &gitServer{git: stack.GitHandler(d.Stack.Git.Root, stack.Auth{
		Username: d.Stack.Git.Username, Password: d.Stack.Secret(t, d.Stack.Git.PasswordFile),
	})}
	served := httptest.NewServer(s.server)
	t.Cleanup(served.Close)
	s.ways = map[faults.Part]*deployment.Proxy{
		faults.Database: deployment.OpenProxy(t, "database", direct),
		faults.Vault:    deployment.OpenProxy(t, "vault", d.Stack.Vault.Address),
		faults.Git:      deployment.OpenProxy(t, "git", served.URL),
	}
	s.repo.HTTPURL = s.ways[faults.Git].Through(t, s.repo.HTTPURL)

	p := d.Profile(t, "change", image, argv...)
	path, policy := d.Stack.Credential(t, map[string]string{"token": "not-a-secret-of-anybody"})
	p.Credentials = []credential.Route{{
		Revision: "token@1.0.0", Path: path, Policy: policy, Field: "token", TTLSeconds: 300,
		Inject: credential.Injection{Kind: credential.InjectFile, Target: "token"},
	}}
	s.ref = d.Vouch(t, s.h, p)
	return s
}

// worker starts a worker on the ways with faults.
func (s *scene) worker(t *testing.T, name, failpoints string, config ...string) *deployment.Process {
	t.Helper()
	direct, err := s.Config.Database.URL()
	require.NoError(t, err)
	database, err := url.Parse(s.ways[faults.Database].Through(t, direct))
	require.NoError(t, err)
	query := database.Query()
	query.Set("application_name", disturbed)
	database.RawQuery = query.Encode()
	vault := s.Stack.Vault.Address
	w := s.Worker(t, name, deployment.WorkerSettings{
		Failpoints: failpoints, DatabaseURL: database.String(), Config: append(config, vault, s.ways[faults.Vault].Through(t, vault)),
	})
	s.workers = append(s.workers, w)
	return w
}

// look reads how the run stands.
func (s *scene) look(t *testing.T) queue.Run {
	t.Helper()
	run, err := s.h.Store().Run(t.Context(), s.run.ID)
	require.NoError(t, err)
	return run
}

// eventually asks from the test's own goroutine, and says whether it came about.
func eventually(limit time.Duration, is func() bool) bool {
	for end := time.Now().Add(limit); ; time.Sleep(25 * time.Millisecond) {
		if is() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}
