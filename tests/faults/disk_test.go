package faults_test

import (
	"crypto/rand"
	"encoding/hex"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/tests/deployment"
	"github.com/rein-aharness/harness/tests/faults"
	"github.com/rein-aharness/harness/tests/stack"
)

// A25, A36, A48: the disk of the database is full at a boundary, for a moment or for longer than a lease lasts, and then it is not. The
// run ends confirmed with its one commit or failed with none, its evidence verifies, nothing is left, and the next run completes.
func TestAFullDiskOfTheDatabaseLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	own := stack.Load(t).Private(t, stack.PartPostgres)
	for _, at := range []struct {
		point string
		lasts time.Duration
		sure  bool // the database has to store more there than it has room for
	}{
		{"accept.before_intent", faults.Short, true},
		{"accept.before_intent", faults.Long, true},
		{"close.after_sign", faults.Long, false},
	} {
		t.Run(at.point+" for "+at.lasts.String(), func(t *testing.T) {
			t.Parallel()
			disk := stack.SmallDisk(t, "128m")
			d := plan(t, own)
			direct, err := d.Config.Database.URL()
			require.NoError(t, err)
			said := move(t, direct, disk)
			random := make([]byte, 32<<10)
			rand.Read(random)
			program := "package a\n\nconst A   =   `" + hex.EncodeToString(random) + "`\n" // the change is all of it
			s := setOn(t, d, "a.go", program, "codemod", "/usr/local/bin/gofumpt", "-w", "a.go")
			s.worker(t, "first", at.point+"=hold:"+s.hold)
			s.reach(t)

			disk.Fill(t)
			require.NoError(t, os.Remove(s.hold))
			time.Sleep(at.lasts)
			disk.Free(t)
			run := s.end(t)
			if at.sure {
				log, err := os.ReadFile(filepath.Join(own.Dir, "log", "postgres.log"))
				require.NoError(t, err)
				require.Contains(t, string(log), said, "the disk was not full for the run")
			}
			confirmed := s.whole(t, run.Effect)
			if at.lasts == faults.Short {
				require.Equal(t, 1, confirmed, "%s %s", run.State, run.Code)
			}

			s.run, _, err = s.h.Emit(t.Context(), deployment.Request("next", s.ref, s.repo), "")
			require.NoError(t, err)
			require.Equal(t, evidence.StateCompleted, s.end(t).State)
		})
	}
}

// A41: the disk of the worker is full when it fetches the baseline, or when it collects the change. The run fails by a code
// that says so, and changes nothing.
func TestAFullDiskOfTheWorkerEndsTheRunAndSaysSo(t *testing.T) {
	t.Parallel()
	for point, code := range map[string]evidence.Code{
		"preflight.started": evidence.CodeCacheExhausted,
		"capture.before":    evidence.CodeDiskExceeded,
	} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			disk := stack.SmallDisk(t, "16m")
			s := set(t)
			s.worker(t, "first", point+"=hold:"+s.hold, "cache_dir: baselines", "cache_dir: "+disk.Dir, "drain_seconds: 30", "drain_seconds: 30, min_free_disk_bytes: 1")
			s.reach(t)
			disk.Fill(t)
			require.NoError(t, os.Remove(s.hold))
			run := s.end(t)
			disk.Free(t)
			require.Equal(t, evidence.StateFailed, run.State)
			require.Equal(t, code, run.Code)
			require.Zero(t, s.whole(t, run.Effect))

			s.run, _, _ = s.h.Emit(t.Context(), deployment.Request("next", s.ref, s.repo), "")
			require.Equal(t, evidence.StateCompleted, s.end(t).State, "there is room again")
		})
	}
}

// whole holds what is there against the effect of the run, and gives the number of its commits.
func (s *scene) whole(t *testing.T, effect evidence.Effect) int {
	t.Helper()
	s.cleared(t)
	var r faults.Result
	s.observe(t, &r)
	require.True(t, r.Verified, "%v", r.Trouble)
	require.Empty(t, r.Trouble)
	require.Zero(t, r.Containers+r.Tokens+r.Others, "%+v", r)
	require.Equal(t, effect == evidence.EffectConfirmed, r.Commits == 1, "%s with %d commits", effect, r.Commits)
	return r.Commits
}

// move puts the database onto the disk, and gives what its log says when the disk is full for it.
func move(t *testing.T, database string, disk *stack.Disk) string {
	t.Helper()
	u, err := url.Parse(database)
	require.NoError(t, err)
	name := u.Path[1:]
	u.Path = "/postgres"
	connection, err := pgx.Connect(t.Context(), u.String())
	require.NoError(t, err)
	defer connection.Close(t.Context())
	var data string
	require.NoError(t, connection.QueryRow(t.Context(), `SHOW data_directory`).Scan(&data))
	info, err := os.Stat(data)
	require.NoError(t, err)
	owner := info.Sys().(*syscall.Stat_t)
	folder, space := disk.Dir+"/tables", pgx.Identifier{"of " + name}.Sanitize()
	require.NoError(t, os.Mkdir(folder, 0o700))
	require.NoError(t, os.Chown(folder, int(owner.Uid), int(owner.Gid)))
	_, err = connection.Exec(t.Context(), `CREATE TABLESPACE `+space+` LOCATION '`+folder+`'`)
	require.NoError(t, err)
	for _, change := range []string{`SET TABLESPACE ` + space, `SET log_min_messages = error`} {
		_, err = connection.Exec(t.Context(), `ALTER DATABASE `+pgx.Identifier{name}.Sanitize()+` `+change)
		require.NoError(t, err)
	}
	var number string
	require.NoError(t, connection.QueryRow(t.Context(), `SELECT oid::text FROM pg_tablespace WHERE spcname = $1`, "of "+name).Scan(&number))
	return `could not extend file "pg_tblspc/` + number + "/"
}
