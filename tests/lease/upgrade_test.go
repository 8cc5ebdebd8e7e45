package lease_test

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness"
	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/tests/deployment"
)

// upgradeVariable names the commit of the version that is replaced; make upgrade sets it. Without it, that is another build of this one.
const upgradeVariable = "UPGRADE_FROM"

// A25, CASES 3, 10: the workers of a version go on while the database is brought to the next one's schema; then one after the other is
// drained and replaced under load, so that both versions work side by side, and no run fails by it or is done twice.
func TestAVersionIsReplacedUnderLoadAndNoRunFails(t *testing.T) {
	t.Parallel()
	const runs = 12
	d := deployment.New(t, deployment.Settings{TTLSeconds: int(ttl / time.Second), HeartbeatSeconds: 1})
	old := deployment.FailpointBinary(t)
	if from := os.Getenv(upgradeVariable); from != "" {
		old = deployment.BinaryAt(t, from)
		migrateWith(t, d, old)
	}
	before := []*deployment.Process{
		d.Worker(t, "old-1", deployment.WorkerSettings{Binary: old}), d.Worker(t, "old-2", deployment.WorkerSettings{Binary: old}),
	}
	for _, w := range before {
		eventually(t, within, func() bool { return strings.Contains(w.Output(), "serving") || w.Over() })
		require.False(t, w.Over(), w.Output())
	}
	require.NoError(t, harness.Migrate(t.Context(), d.Config))

	s := &scene{Deployment: d, h: d.Open(t, harness.Options{})}
	s.repo = d.Stack.Repository(t, "lease", map[string]string{".harness.yaml": deployment.Manifest, "a.txt": "as it is\n"})
	s.ref = d.Vouch(t, s.h, d.Profile(t, "change", "hostile", slowly(2*time.Second)...))
	var ids []string
	for i := range runs {
		request := deployment.Request(fmt.Sprint("load ", i), s.ref, s.repo)
		request.TargetRef = fmt.Sprint("refs/heads/load-", i)
		run, _, err := s.h.Emit(t.Context(), request, "")
		require.NoError(t, err)
		ids = append(ids, run.ID)
	}
	for i, w := range before {
		eventually(t, within, func() bool { return s.held(t, ids, w.Name) }) // in the middle of something
		d.Worker(t, fmt.Sprint("new-", i+1), deployment.WorkerSettings{})
		w.Signal(t, syscall.SIGTERM)
		require.Zero(t, w.Ended(t, within), w.Output())
	}

	did := map[string]int{}
	for i, id := range ids {
		run := s.final(t, id, within)
		require.Equal(t, evidence.StateCompleted, run.State, "%s %s", run.FailedStage, run.Code)
		require.Equal(t, evidence.EffectConfirmed, run.Effect)
		require.EqualValues(t, 1, run.Epoch, "nobody else had to take it up")
		require.Len(t, s.repo.Log(t, fmt.Sprint("refs/heads/load-", i)), 2)
		deployment.Verify(t, s.h, id)
		version, _, _ := strings.Cut(run.WorkerID, "-")
		did[version]++
	}
	t.Log("runs by version:", did)
	require.NotZero(t, did["old"])
	require.NotZero(t, did["new"])
}

// held says whether a worker holds one of the runs.
func (s *scene) held(t *testing.T, ids []string, worker string) bool {
	t.Helper()
	return slices.ContainsFunc(ids, func(id string) bool {
		run := s.run(t, id)
		return run.WorkerID == worker && run.State == evidence.StateRunning && run.Stage == evidence.StageSession
	})
}

// migrateWith has another build of the command make the deployment's schema.
func migrateWith(t *testing.T, d *deployment.Deployment, binary string) {
	t.Helper()
	url, err := d.Config.Database.URL()
	require.NoError(t, err)
	db, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	_, err = db.Exec(t.Context(), `DROP SCHEMA public CASCADE; CREATE SCHEMA public`)
	require.NoError(t, err)
	require.NoError(t, db.Close(t.Context()))
	output, err := exec.Command(binary, "migrate", "--config", d.File).CombinedOutput()
	require.NoError(t, err, "%s", output)
}
