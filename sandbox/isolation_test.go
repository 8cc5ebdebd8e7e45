package sandbox_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/sandbox"
)

var runtimes = []string{sandbox.RuntimeRunc, sandbox.RuntimeRunsc}

// eachRuntime runs f with a fresh sandbox under every runtime.
func eachRuntime(t *testing.T, f func(t *testing.T, runtime string, s *sandbox.Sandbox)) {
	t.Helper()
	for _, runtime := range runtimes {
		t.Run(runtime, func(t *testing.T) {
			t.Parallel()
			f(t, runtime, newSandbox(t, openVenue(t), testSpec(t, runtime)))
		})
	}
}

// refusedIn runs testprog and requires that it fails.
func refusedIn(t *testing.T, s *sandbox.Sandbox, args ...string) {
	t.Helper()
	out, exit, err := runIn(t, s, args...)
	require.NoError(t, err)
	require.Equal(t, 1, exit.Code, "%s succeeded: %s", strings.Join(args, " "), out)
}

// A24, A32
func TestTheSessionReachesNothingOutsideItsMounts(t *testing.T) {
	t.Parallel()
	eachRuntime(t, func(t *testing.T, runtime string, s *sandbox.Sandbox) {
		require.Equal(t, "lo\n", must(t, s, "interfaces"))
		for _, place := range []string{"/x", "/etc/x", "/bin/x", "/bin/testprog", "/dev/x", "/dev/shm/x", "/run/x", "/proc/x", "/sys/x", "/sys/fs/cgroup/pids/pids.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes", "/.harness/harness", "/.harness/x"} {
			refusedIn(t, s, "touch", place)
		}
		for _, place := range []string{"/workspace/x", "/home/agent/x", "/tmp/x", "/run/harness/x"} {
			must(t, s, "touch", place)
		}
		refusedIn(t, s, "dial", "tcp", "192.0.2.1:80")
		refusedIn(t, s, "dial", "tcp", "example.org:80")
		refusedIn(t, s, "dial", "unix", "/var/run/docker.sock")
		for _, a := range []string{"setuid", "mount", "chroot", "rawsocket"} {
			refusedIn(t, s, "attack", a)
		}
		if runtime == sandbox.RuntimeRunc {
			refusedIn(t, s, "attack", "userns")
			refusedIn(t, s, "attack", "mknod")
			return
		}
		// gVisor gives namespaces and device nodes of its own kernel, with nothing of the host's behind them; no node leaves.
		must(t, s, "attack", "mknod")
		requireCode(t, s.Capture(t.Context(), bounds, nil, func(sandbox.Entry) error { return nil }), evidence.CodeFileTypeRefused)
	})
}

// A24
func TestTheSessionCannotTouchPID1(t *testing.T) {
	t.Parallel()
	eachRuntime(t, func(t *testing.T, runtime string, s *sandbox.Sandbox) {
		attacks := []string{"signal", "stop", "ptrace", "prlimit", "/proc/1/mem", "/proc/1/fd/0", "/proc/1/fd/1", "/proc/1/oom_score_adj"}
		if runtime == sandbox.RuntimeRunc {
			attacks = append(attacks, "priority", "affinity")
		} else {
			require.Contains(t, s.Evidence().NotEnforced, "init_scheduling")
		}
		for _, a := range attacks {
			refusedIn(t, s, "attack", a)
		}
		require.Empty(t, must(t, s, "descriptors"))
	})
}

// A28, CASES 21
func TestEnvironmentTravelsOverTheWireAndIsNotInTheContainersConfiguration(t *testing.T) {
	t.Parallel()
	const canary = "canary-5f1b7c"
	eachRuntime(t, func(t *testing.T, _ string, s *sandbox.Sandbox) {
		var out strings.Builder
		_, err := s.Exec(t.Context(), sandbox.Command{Argv: []string{"testprog", "env"}, Env: []string{"SECRET=" + canary}, Output: &out})
		require.NoError(t, err)
		require.ElementsMatch(t, []string{
			"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "IMAGE_SAYS=hello", "HOME=/home/agent", "USER=agent", "TMPDIR=/tmp", "SECRET=" + canary,
		}, strings.Split(strings.TrimSpace(out.String()), "\n"))
		require.NoError(t, s.PutFile(t.Context(), sandbox.RunDir+"/token", 0o400, []byte(canary)))
		require.Equal(t, canary, must(t, s, "cat", sandbox.RunDir+"/token"))

		inspected, err := dockerClient(t).ContainerInspect(t.Context(), s.ID())
		require.NoError(t, err)
		require.NotContains(t, mustJSON(t, inspected), canary)
		for _, kv := range inspected.Config.Env {
			require.NotContains(t, kv, "=")
		}
	})
}

// A22
func TestEvidenceHasDeclaredAndObservedPosture(t *testing.T) {
	t.Parallel()
	eachRuntime(t, func(t *testing.T, runtime string, s *sandbox.Sandbox) {
		e := s.Evidence()
		require.Equal(t, s.ID(), e.ContainerID)
		require.Equal(t, runtime, e.Runtime)
		require.Equal(t, testEngine, e.Engine)
		require.Equal(t, "none", e.Reachability)
		require.Len(t, e.Observed, len(e.Declared))
		for key, declared := range e.Declared {
			if e.Observed[key] != "not_enforced" {
				require.Equal(t, declared, e.Observed[key], key)
			}
		}
		if runtime == sandbox.RuntimeRunc {
			require.Empty(t, e.NotEnforced)
			return
		}
		require.Equal(t, []string{"cpu", "init_scheduling", "inodes", "memory", "pids"}, e.NotEnforced)
		require.Equal(t, "not_enforced", e.Observed["memory_bytes"])
	})
}
