package sandbox_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/volume"
	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/sandbox"
)

// A role is what a child process of the test plays: a worker that holds a sandbox with a running session until it dies.
const roleVariable = "SANDBOX_TEST_ROLE"

type workerRole struct {
	Config sandbox.Config
	Spec   sandbox.Spec
	ID     sandbox.Identity
}

func playRole(text string) int {
	var role workerRole
	if err := json.Unmarshal([]byte(text), &role); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx := context.Background()
	v, err := sandbox.Open(ctx, role.Config)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	s, err := v.Create(ctx, role.Spec, role.ID)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(s.ID())
	_, err = s.Exec(ctx, sandbox.Command{Argv: []string{"testprog", "sleep", "1h"}})
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// worker starts a child process that holds a sandbox, and returns the process and the container's id.
func worker(t *testing.T, runtime string, keepalive time.Duration, ttl int64) (*os.Process, string) {
	t.Helper()
	openVenue(t)
	spec := testSpec(t, runtime)
	spec.TTLSeconds = ttl
	host := dockerClient(t).DaemonHost()
	role := workerRole{Config: sandbox.Config{Host: host, Engine: testEngine, Binary: initBinary(), Keepalive: keepalive}, Spec: spec, ID: testIdentity()}
	self, err := os.Executable()
	require.NoError(t, err)
	c := exec.Command(self)
	c.Env = append(os.Environ(), roleVariable+"="+mustJSON(t, role))
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGCONT)
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	return c.Process, strings.TrimSpace(line)
}

func requireGoneWithin(t *testing.T, id string, limit time.Duration) {
	t.Helper()
	c := dockerClient(t)
	require.Eventually(t, func() bool {
		_, err := c.ContainerInspect(context.Background(), id)
		return cerrdefs.IsNotFound(err)
	}, limit, 50*time.Millisecond)
}

// A25
func TestTheContainerIsGoneAfterItsWorkerIsKilled(t *testing.T) {
	t.Parallel()
	for _, runtime := range runtimes {
		t.Run(runtime, func(t *testing.T) {
			t.Parallel()
			p, id := worker(t, runtime, 0, 120)
			require.NoError(t, p.Kill())
			requireGoneWithin(t, id, 5*time.Second)
		})
	}
}

// A25
func TestTheContainerEndsWhenItsWorkerIsStopped(t *testing.T) {
	t.Parallel()
	for _, runtime := range runtimes {
		t.Run(runtime, func(t *testing.T) {
			t.Parallel()
			p, id := worker(t, runtime, time.Second, 120)
			require.NoError(t, p.Signal(syscall.SIGSTOP))
			requireGoneWithin(t, id, 15*time.Second)
		})
	}
}

// A25
func TestTheContainerEndsAtItsTTLAndItsWorkerSeesIt(t *testing.T) {
	t.Parallel()
	spec := testSpec(t, sandbox.RuntimeRunc)
	spec.TTLSeconds = 3
	s := newSandbox(t, openVenue(t), spec)
	_, err := s.Exec(t.Context(), sandbox.Command{Argv: []string{"testprog", "sleep", "1h"}})
	requireCode(t, err, evidence.CodeSandboxLost)
	<-s.Lost()
	requireGoneWithin(t, s.ID(), 5*time.Second)
	_, err = s.Exec(t.Context(), sandbox.Command{Argv: []string{"testprog", "echo"}})
	requireCode(t, err, evidence.CodeSandboxLost)
	requireCode(t, s.Quiesce(t.Context()), evidence.CodeSandboxLost)
	requireCode(t, s.Capture(t.Context(), bounds, nil, func(sandbox.Entry) error { return nil }), evidence.CodeSandboxLost)
}

// A26
func TestDestroyEndsARunningCommandAndMayBeCalledAgain(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, openVenue(t), testSpec(t, sandbox.RuntimeRunc))
	ended := startIn(t, s, "stubborn")
	for range 2 {
		torn, err := s.Destroy(t.Context())
		require.NoError(t, err)
		require.True(t, torn.Clean())
	}
	requireCode(t, <-ended, evidence.CodeSandboxLost)
	_, err := dockerClient(t).ContainerInspect(t.Context(), s.ID())
	require.True(t, cerrdefs.IsNotFound(err))
}

// A25, CASES 15
func TestTheJanitorRemovesByExpiryAndLeaseInAnyState(t *testing.T) {
	t.Parallel()
	c := dockerClient(t)
	host := c.DaemonHost()
	const engine = "janitor-test"
	v, err := sandbox.Open(t.Context(), sandbox.Config{Host: host, Engine: engine, Binary: initBinary()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, v.Close()) })
	now := time.Now()
	left := func(name, of string, expires time.Time, start bool) string {
		created, err := c.ContainerCreate(t.Context(), &container.Config{
			Image: testImage(t), Entrypoint: []string{"/bin/testprog"}, Cmd: []string{"sleep", "1h"},
			Labels: map[string]string{"harness.engine": of, "harness.run": name, "harness.epoch": "3", "harness.owner": "o", "harness.expires": fmt.Sprint(expires.Unix())},
		}, &container.HostConfig{NetworkMode: "none"}, nil, nil, "")
		require.NoError(t, err)
		t.Cleanup(func() {
			_ = c.ContainerRemove(context.Background(), created.ID, container.RemoveOptions{Force: true})
		})
		if start {
			require.NoError(t, c.ContainerStart(t.Context(), created.ID, container.StartOptions{}))
		}
		return created.ID
	}
	later := now.Add(time.Hour)
	gone := []string{
		left("created", engine, now.Add(-time.Second), false), left("running", engine, now.Add(-time.Second), true), left("over", engine, later, true),
	}
	kept := []string{left("live", engine, later, true), left("foreign", "another-engine", now.Add(-time.Hour), true)}
	paused := left("paused", engine, now.Add(-time.Second), true)
	require.NoError(t, c.ContainerPause(t.Context(), paused))
	gone = append(gone, paused)
	unknown := left("unknown", engine, later, true)

	swept, err := v.Janitor(t.Context(), now, func(l sandbox.Labels) (bool, error) {
		require.EqualValues(t, 3, l.Epoch)
		if l.Run == "unknown" {
			return true, os.ErrDeadlineExceeded
		}
		return l.Run == "over", nil
	})
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.Len(t, swept, len(gone))
	for _, id := range gone {
		_, err := c.ContainerInspect(t.Context(), id)
		require.True(t, cerrdefs.IsNotFound(err))
	}
	for _, id := range append(kept, unknown) {
		_, err := c.ContainerInspect(t.Context(), id)
		require.NoError(t, err)
	}
}

// CASES 16
func TestTheJanitorRetiresInitVolumesOfOtherReleases(t *testing.T) {
	t.Parallel()
	c := dockerClient(t)
	const engine = "volume-test"
	v, err := sandbox.Open(t.Context(), sandbox.Config{Host: c.DaemonHost(), Engine: engine, Binary: initBinary()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, v.Close()) })
	old, err := c.VolumeCreate(t.Context(), volume.CreateOptions{Labels: map[string]string{"harness.engine": engine, "harness.init": "sha256:old"}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.VolumeRemove(context.Background(), old.Name, true) })
	_, err = v.Janitor(t.Context(), time.Now(), nil)
	require.NoError(t, err)
	_, err = c.VolumeInspect(t.Context(), old.Name)
	require.NoError(t, err)
	_, err = v.Janitor(t.Context(), time.Now().Add(8*24*time.Hour), nil)
	require.NoError(t, err)
	_, err = c.VolumeInspect(t.Context(), old.Name)
	require.True(t, cerrdefs.IsNotFound(err))
}

// creations counts what f makes the engine create under this test's labels.
func creations(t *testing.T, f func()) int {
	t.Helper()
	c := dockerClient(t)
	since := time.Now()
	f()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	messages, errs := c.Events(ctx, events.ListOptions{
		Since: fmt.Sprintf("%d.%09d", since.Unix(), since.Nanosecond()), Until: fmt.Sprint(time.Now().Unix() + 1),
		Filters: filters.NewArgs(filters.Arg("type", "container"), filters.Arg("event", "create"), filters.Arg("label", "harness.engine=check-test")),
	})
	n := 0
	for {
		select {
		case <-messages:
			n++
		case <-errs:
			return n
		}
	}
}

// A4, A7, A8, CASES 20
func TestCheckRefusesByNameAndCreatesNothing(t *testing.T) {
	t.Parallel()
	c := dockerClient(t)
	v, err := sandbox.Open(t.Context(), sandbox.Config{Host: c.DaemonHost(), Engine: "check-test", Binary: initBinary()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, v.Close()) })
	good := testSpec(t, sandbox.RuntimeRunc)
	with := func(change func(*sandbox.Spec)) sandbox.Spec {
		s := good
		change(&s)
		return s
	}
	n := creations(t, func() {
		require.NoError(t, v.Check(t.Context(), good))
		require.NoError(t, v.Check(t.Context(), with(func(s *sandbox.Spec) { s.Required = []string{"memory", "pids", "cpu", "inodes"} })))
		for code, spec := range map[evidence.Code]sandbox.Spec{
			evidence.CodeImageMissing:        with(func(s *sandbox.Spec) { s.Image = "sha256:" + strings.Repeat("0", 64) }),
			evidence.CodeProfileIncompatible: with(func(s *sandbox.Spec) { s.Runtime = "kata" }),
			evidence.CodeLimitNotEnforced:    with(func(s *sandbox.Spec) { s.Runtime, s.Required = sandbox.RuntimeRunsc, []string{"pids"} }),
		} {
			requireCode(t, v.Check(t.Context(), spec), code)
			_, err := v.Create(t.Context(), spec, testIdentity())
			requireCode(t, err, code)
		}
		for _, actor := range []evidence.Actor{"", "worker-1"} { // A18
			id := testIdentity()
			id.Actor = actor
			_, err := v.Create(t.Context(), good, id)
			requireCode(t, err, evidence.CodeActorInvalid)
		}
	})
	require.Zero(t, n)
	require.Equal(t, 1, creations(t, func() { // the counter does count, and the init volume is not verified twice
		newSandbox(t, v, good)
	})-1)
	require.Equal(t, 1, creations(t, func() { newSandbox(t, v, good) }))
}

func TestAMissingInitVolumeIsMadeAgain(t *testing.T) {
	t.Parallel()
	c := dockerClient(t)
	other := t.TempDir() + "/init" // another digest, so that no other test uses its volume
	b, err := os.ReadFile(initBinary())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(other, append(b, "padding"...), 0o600))
	v, err := sandbox.Open(t.Context(), sandbox.Config{Host: c.DaemonHost(), Engine: testEngine, Binary: other})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, v.Close()) })
	name := "harness-init-" + strings.TrimPrefix(v.InitDigest(), "sha256:")[:32]
	t.Cleanup(func() { _ = c.VolumeRemove(context.Background(), name, true) })
	for range 2 {
		s, err := v.Create(t.Context(), testSpec(t, sandbox.RuntimeRunc), testIdentity())
		require.NoError(t, err)
		_, err = s.Destroy(t.Context())
		require.NoError(t, err)
		require.NoError(t, c.VolumeRemove(t.Context(), name, false))
		time.Sleep(1100 * time.Millisecond) // the engine tells a volume's age in seconds
	}
}

func TestADynamicBinaryIsRefusedAsInit(t *testing.T) {
	t.Parallel()
	c := dockerClient(t)
	_, err := sandbox.Open(t.Context(), sandbox.Config{Host: c.DaemonHost(), Engine: testEngine, Binary: "/bin/ls"})
	require.ErrorContains(t, err, "not static")
}

// CASES 20
func TestLoadRefusesAnotherImageAndAFullDisk(t *testing.T) {
	t.Parallel()
	c := dockerClient(t)
	saved, err := c.ImageSave(t.Context(), []string{testImage(t)})
	require.NoError(t, err)
	defer saved.Close()
	v := openVenue(t)
	missing := "sha256:" + strings.Repeat("1", 64)
	requireCode(t, v.Load(t.Context(), saved, 64<<20, missing), evidence.CodeImageMismatch)
	small := openVenueWith(t, sandbox.Config{ImageBytes: 1})
	requireCode(t, small.Load(t.Context(), strings.NewReader(""), 10, missing), evidence.CodeDiskExceeded)
	require.NoError(t, small.Load(t.Context(), strings.NewReader(""), 10, testImage(t)))
}
