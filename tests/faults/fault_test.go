package faults_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/tests/faults"
)

// fault makes one kind of fault happen. begin is called while the worker is held, which goes on then; end is called after lasts.
type fault struct {
	begin func(t *testing.T, s *scene)
	lasts func(t *testing.T, s *scene)
	end   func(t *testing.T, s *scene)
}

func over(*testing.T, *scene) {}

func lasting(d time.Duration) func(*testing.T, *scene) {
	return func(*testing.T, *scene) { time.Sleep(d) }
}

// makers are the faults by the names of their kinds.
func makers() map[string]fault {
	all := map[string]fault{
		faults.WorkerKilled: {func(t *testing.T, s *scene) {
			s.workers[0].Kill(t)
			s.worker(t, "second", "")
		}, over, over},
		faults.WorkerStopped: {func(t *testing.T, s *scene) {
			s.workers[0].Signal(t, syscall.SIGSTOP)
			s.worker(t, "second", "")
		}, func(t *testing.T, s *scene) {
			time.Sleep(faults.Long)
			require.True(t, eventually(within, func() bool { return s.look(t).State.Final() }), "the second worker does not end the run")
		}, func(t *testing.T, s *scene) { s.workers[0].Signal(t, syscall.SIGCONT) }},
		faults.BackendsEnded: {func(t *testing.T, s *scene) { s.terminate(t) }, over, over},
		faults.DatabaseReadOnly: {
			func(t *testing.T, s *scene) { s.readOnly(t, "SET default_transaction_read_only = on") }, lasting(faults.Long),
			func(t *testing.T, s *scene) { s.readOnly(t, "RESET default_transaction_read_only") },
		},
		faults.DatabaseAwayLong: away(faults.Database, faults.Long),
		faults.SandboxKilled:    {func(t *testing.T, s *scene) { s.killSandbox(t) }, over, over},
		faults.GitEmpty:         {func(_ *testing.T, s *scene) { s.server.answerNothing() }, over, over},
		faults.GitLost:          {func(_ *testing.T, s *scene) { s.server.loseAnswer() }, over, over},
		faults.GitLate:          {func(_ *testing.T, s *scene) { s.server.answerLate() }, over, over},
		faults.GitNotAtomic: {
			func(t *testing.T, s *scene) { s.repo.Git(t, "config", "receive.advertiseAtomic", "false") },
			func(t *testing.T, s *scene) {
				require.True(t, eventually(within, func() bool { return s.look(t).State.Final() }), "the run does not end without atomic updates")
			},
			func(t *testing.T, s *scene) { s.repo.Git(t, "config", "--unset", "receive.advertiseAtomic") },
		},
		// The branch's lock is gone when its turn comes: git has moved the fence by then and gives up.
		faults.GitBetween: {func(t *testing.T, s *scene) {
			script := "#!/bin/sh\ntest \"$1\" = prepared && rm -f refs/heads/main.lock; exit 0\n"
			require.NoError(t, os.WriteFile(s.hook(), []byte(script), 0o755))
		}, func(t *testing.T, s *scene) {
			require.True(t, eventually(within, func() bool { return s.look(t).NextCheckAt != nil }), "the run does not wait")
		}, func(t *testing.T, s *scene) {
			require.NoError(t, os.Remove(s.hook()))
			_, code := s.Command(t, "runs", "settle", s.run.ID, "--effect", "not_applied", "--reason", "the branch was looked at", "--operator", "ada")
			require.NotZero(t, code)
		}},
	}
	for _, p := range []faults.Part{faults.Database, faults.Vault, faults.Git} {
		all[faults.Away(p)] = away(p, faults.Short)
		all[faults.HalfOpen(p)] = poisoned(p, faults.Short, "timeout", map[string]int64{"timeout": 0}, "upstream", "downstream")
		all[faults.Resets(p)] = poisoned(p, faults.Short, "reset_peer", map[string]int64{"timeout": 0}, "downstream")
		all[faults.Slow(p)] = poisoned(p, faults.TTL, "latency", map[string]int64{"latency": faults.Delay.Milliseconds()}, "downstream")
	}
	return all
}

func away(p faults.Part, d time.Duration) fault {
	return fault{
		func(_ *testing.T, s *scene) { s.ways[p].Stop() }, lasting(d),
		func(t *testing.T, s *scene) { require.NoError(t, s.ways[p].Start()) },
	}
}

func poisoned(p faults.Part, d time.Duration, kind string, attributes map[string]int64, streams ...string) fault {
	return fault{func(t *testing.T, s *scene) {
		for _, stream := range streams {
			require.NoError(t, s.ways[p].Poison(kind, stream, attributes))
		}
	}, lasting(d), func(t *testing.T, s *scene) {
		for _, stream := range streams {
			require.NoError(t, s.ways[p].Heal(t.Context(), kind, stream))
		}
	}}
}

func (s *scene) hook() string { return filepath.Join(s.repo.Dir, "hooks", "reference-transaction") }

// terminate ends the workers' connections to the database, at the server.
func (s *scene) terminate(t *testing.T) {
	t.Helper()
	_, err := s.db.Exec(t.Context(), `
		SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1`, disturbed)
	require.NoError(t, err)
}

// readOnly changes whether transactions of new connections may write, and has the workers connect anew.
func (s *scene) readOnly(t *testing.T, setting string) {
	t.Helper()
	var name string
	require.NoError(t, s.db.QueryRow(t.Context(), `SELECT current_database()`).Scan(&name))
	_, err := s.db.Exec(t.Context(), "ALTER DATABASE "+pgx.Identifier{name}.Sanitize()+" "+setting)
	require.NoError(t, err)
	s.terminate(t)
}

// containers are the run's on the engine, in any state.
func (s *scene) containers(t *testing.T) []container.Summary {
	t.Helper()
	list, err := s.engine.ContainerList(t.Context(), container.ListOptions{
		All: true, Filters: filters.NewArgs(filters.Arg("label", "harness.run="+s.run.ID)),
	})
	require.NoError(t, err)
	return list
}

func (s *scene) killSandbox(t *testing.T) {
	t.Helper()
	list := s.containers(t)
	require.Len(t, list, 1)
	require.NoError(t, s.engine.ContainerKill(t.Context(), list[0].ID, "KILL"))
	require.True(t, eventually(within, func() bool {
		now := s.containers(t)
		return len(now) == 0 || now[0].State != "running"
	}))
}
