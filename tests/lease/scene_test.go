package lease_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"
	"github.com/hashicorp/vault/api"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness"
	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/profiles"
	"github.com/rein-aharness/harness/queue"
	"github.com/rein-aharness/harness/rein/credential"
	"github.com/rein-aharness/harness/tests/deployment"
	"github.com/rein-aharness/harness/tests/stack"
)

const (
	ttl    = 3 * time.Second
	main   = "refs/heads/main"
	pushes = "pushes.log" // what the remote was asked for, in its own folder
	// within bounds what has no bound of its own in a test.
	within = 60 * time.Second
)

// scene is a deployment with short leases, a repository whose server keeps a log of pushes, and a profile.
type scene struct {
	*deployment.Deployment
	h    *harness.Harness // to look, and to emit; it serves no queue
	repo stack.RemoteRepo
	ref  profiles.Ref
}

// change is a session that makes a change at once.
func change() []string { return []string{"/usr/local/bin/toolbox", "write", "a.txt", "changed"} }

// slowly is a session that makes a change and goes on for a while.
func slowly(d time.Duration) []string { return append(change(), ";", "sleep", d.String()) }

func set(t *testing.T, argv []string) *scene {
	t.Helper()
	d := deployment.New(t, deployment.Settings{TTLSeconds: int(ttl / time.Second), HeartbeatSeconds: 1})
	s := &scene{Deployment: d, h: d.Open(t, harness.Options{})}
	s.repo = d.Stack.Repository(t, "lease", map[string]string{".harness.yaml": deployment.Manifest, "a.txt": "as it is\n"})
	s.hook(t, "pre-receive", "cat >>"+pushes)
	p := d.Profile(t, "change", "hostile", argv...)
	path, policy := d.Stack.Credential(t, map[string]string{"token": "not-a-secret-of-anybody"})
	p.Credentials = []credential.Route{{
		Revision: "token@1.0.0", Path: path, Policy: policy, Field: "token", TTLSeconds: 300,
		Inject: credential.Injection{Kind: credential.InjectFile, Target: "token"},
	}}
	s.ref = d.Publish(t, s.h, p, s.repo)
	// What publishing has pushed is not of interest.
	require.NoError(t, os.RemoveAll(filepath.Join(s.repo.Dir, pushes)))
	return s
}

func (s *scene) hook(t *testing.T, name, script string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(s.repo.Dir, "hooks", name), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
}

func (s *scene) emit(t *testing.T, trigger string) queue.Run {
	t.Helper()
	run, created, err := s.h.Emit(t.Context(), deployment.Request(trigger, s.ref, s.repo), "")
	require.NoError(t, err)
	require.True(t, created)
	return run
}

func (s *scene) run(t *testing.T, id string) queue.Run {
	t.Helper()
	run, err := s.h.Store().Run(t.Context(), id)
	require.NoError(t, err)
	return run
}

// until waits until a run is as it should be.
func (s *scene) until(t *testing.T, id string, limit time.Duration, as func(queue.Run) bool) queue.Run {
	t.Helper()
	var run queue.Run
	eventually(t, limit, func() bool {
		run = s.run(t, id)
		return as(run)
	})
	return run
}

func (s *scene) final(t *testing.T, id string, limit time.Duration) queue.Run {
	t.Helper()
	return s.until(t, id, limit, func(r queue.Run) bool { return r.State.Final() })
}

// inSession waits until the run's session has changed the workspace, which its sandbox shows by being there in that stage.
func (s *scene) inSession(t *testing.T, id string) {
	t.Helper()
	s.until(t, id, within, func(r queue.Run) bool { return r.Stage == evidence.StageSession })
	require.Len(t, s.containers(t, id), 1)
}

// eventually asks from the test's own goroutine.
func eventually(t *testing.T, limit time.Duration, is func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !is(); time.Sleep(25 * time.Millisecond) {
		require.True(t, time.Now().Before(end), "not within %s", limit)
	}
}

// containers are the run's containers on the engine, in any state.
func (s *scene) containers(t *testing.T, id string) []string {
	t.Helper()
	engine, err := client.NewClientWithOpts(client.WithHost(s.Stack.DockerHost()), client.WithAPIVersionNegotiation())
	require.NoError(t, err)
	defer func() { require.NoError(t, engine.Close()) }()
	list, err := engine.ContainerList(t.Context(), container.ListOptions{
		All: true, Filters: filters.NewArgs(filters.Arg("label", "harness.run="+id)),
	})
	require.NoError(t, err)
	var ids []string
	for _, c := range list {
		ids = append(ids, c.ID)
	}
	return ids
}

// liveTokens are the accessors that the run's ledger has, as far as Vault still knows them.
func (s *scene) liveTokens(t *testing.T, id string) (live []string) {
	t.Helper()
	url, err := s.Config.Database.URL()
	require.NoError(t, err)
	db, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close(context.WithoutCancel(t.Context()))) }()
	rows, err := db.Query(t.Context(), `SELECT accessor FROM run_token WHERE run_id = $1`, id)
	require.NoError(t, err)
	accessors, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	vault := s.Stack.VaultRoot(t)
	for _, accessor := range accessors {
		_, err := vault.Auth().Token().LookupAccessorWithContext(t.Context(), accessor)
		var gone *api.ResponseError
		if err != nil {
			require.ErrorAs(t, err, &gone)
			require.Contains(t, []int{http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound}, gone.StatusCode)
			require.ErrorContains(t, err, "invalid accessor")
			continue
		}
		live = append(live, accessor)
	}
	return live
}

// asked are the pushes that the remote was asked for and that name a ref.
func (s *scene) asked(t *testing.T, ref string) (lines []string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(s.repo.Dir, pushes))
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	for line := range strings.Lines(string(data)) {
		if strings.HasSuffix(strings.TrimSpace(line), " "+ref) {
			lines = append(lines, line)
		}
	}
	return lines
}

// settled requires that a run ended with an effect, that the branch holds one commit more for confirmed and none for any other,
// and that nothing is left: no container and no token; and that its evidence verifies.
func (s *scene) settled(t *testing.T, run queue.Run, state evidence.State, effect evidence.Effect) {
	t.Helper()
	require.Equal(t, state, run.State, "%s %s", run.FailedStage, run.Code)
	require.Equal(t, effect, run.Effect, "%s %s", run.FailedStage, run.Code)
	commits := 1
	if effect == evidence.EffectConfirmed {
		commits = 2
	}
	require.Len(t, s.repo.Log(t, main), commits)
	s.nothingLeft(t, run.ID)
	deployment.Verify(t, s.h, run.ID)
}

func (s *scene) nothingLeft(t *testing.T, id string) {
	t.Helper()
	eventually(t, within, func() bool { return len(s.containers(t, id)) == 0 })
	eventually(t, within, func() bool { return len(s.liveTokens(t, id)) == 0 })
}
