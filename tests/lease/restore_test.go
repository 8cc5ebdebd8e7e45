package lease_test

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/tests/deployment"
)

// A44, A51: a dump is loaded into the same cluster, from when one run had published and not closed, another was not claimed yet, and a
// third was not emitted; all have landed since. Nobody claims until it is adopted. Then the first is settled from its remote, and so is
// the second, of whose attempt only the remote still knows; the third is emitted again, is the same run, and is settled likewise; and
// nothing lands twice.
func TestARestoredDumpStopsAllClaimsUntilItIsAdoptedAndNothingLandsTwice(t *testing.T) {
	t.Parallel()
	s := set(t, []string{"/usr/local/bin/toolbox", "append", "a.txt", "q:once more\\n"})
	published := s.emit(t, "published before the dump")
	first := s.Worker(t, "first", deployment.WorkerSettings{Failpoints: "close.before=kill"})
	first.Ended(t, within)
	unclaimed := s.emit(t, "emitted before the dump")
	dump := s.dump(t)
	second := s.Worker(t, "second", deployment.WorkerSettings{})
	for _, id := range []string{published.ID, unclaimed.ID} {
		run := s.final(t, id, within)
		require.Equal(t, evidence.EffectConfirmed, run.Effect, "%s %s", run.FailedStage, run.Code)
	}
	later := s.emit(t, "emitted after the dump") // on what the two have made
	require.Equal(t, evidence.EffectConfirmed, s.final(t, later.ID, within).Effect)
	second.Signal(t, syscall.SIGTERM)
	second.Ended(t, within)
	landed := s.asked(t, main)
	require.Len(t, landed, 3)
	s.load(t, dump)

	third := s.Worker(t, "third", deployment.WorkerSettings{})
	time.Sleep(2 * ttl)
	require.Equal(t, evidence.StateRunning, s.run(t, published.ID).State)
	require.Equal(t, evidence.StateCreated, s.run(t, unclaimed.ID).State)
	require.Contains(t, third.Output(), "doctor --adopt")

	adopted, _ := s.Command(t, "doctor", "--adopt", "--operator", "ada", "--json")
	require.Contains(t, adopted, published.ID)
	require.Contains(t, adopted, unclaimed.ID)
	again := s.emit(t, "emitted after the dump")
	require.Equal(t, later.ID, again.ID)
	for id, lost := range map[string]bool{published.ID: false, unclaimed.ID: true, again.ID: true} {
		run := s.final(t, id, within)
		require.Equal(t, evidence.StateCompleted, run.State, "%s %s", run.FailedStage, run.Code)
		require.Equal(t, evidence.EffectConfirmed, run.Effect)
		report := deployment.Verify(t, s.h, id)
		require.Equal(t, lost, strings.Contains(fmt.Sprint(report.Checks), "record lost"))
		s.nothingLeft(t, id)
	}
	require.Equal(t, landed, s.asked(t, main))
	require.Len(t, s.repo.Log(t, main), 4)
}

// dump writes the database to a file, as it is backed up.
func (s *scene) dump(t *testing.T) string {
	t.Helper()
	file := filepath.Join(s.Dir, "dump")
	s.client(t, "pg_dump", "--format=custom", "--file="+file)
	return file
}

// load makes the database what a dump says, and nothing else.
func (s *scene) load(t *testing.T, dump string) {
	t.Helper()
	s.client(t, "pg_restore", "--clean", "--if-exists", "--single-transaction", dump)
}

// client runs one of Postgres' own programs on the deployment's database.
func (s *scene) client(t *testing.T, program string, arguments ...string) {
	t.Helper()
	address, err := s.Config.Database.URL()
	require.NoError(t, err)
	u, err := url.Parse(address)
	require.NoError(t, err)
	password, _ := u.User.Password()
	u.User = url.User(u.User.Username())
	cmd := exec.Command(program, append([]string{"--no-password", "--dbname=" + u.String()}, arguments...)...)
	cmd.Env = append(os.Environ(), "PGPASSWORD="+password)
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s %s: %s", program, strings.Join(arguments, " "), output)
}
