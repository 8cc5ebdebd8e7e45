package sandbox_test

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/sandbox"
)

// startIn runs testprog in the background until it has written its first line, and returns a channel with how it ended.
func startIn(t *testing.T, s *sandbox.Sandbox, args ...string) <-chan error {
	t.Helper()
	pr, pw := io.Pipe()
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, err := s.Exec(ctx, sandbox.Command{Argv: append([]string{"testprog"}, args...), Output: pw})
		pw.CloseWithError(io.EOF)
		ended <- err
	}()
	_, err := pr.Read(make([]byte, 64))
	require.NoError(t, err)
	go func() { _, _ = io.Copy(io.Discard, pr) }()
	t.Cleanup(cancel)
	return ended
}

// A24, CASES 18
func TestAForkBombIsEndedAndTheCaptureStillComes(t *testing.T) {
	t.Parallel()
	eachRuntime(t, func(t *testing.T, runtime string, s *sandbox.Sandbox) {
		require.NoError(t, s.Unpack(t.Context(), tarOf(t, file{name: "a", content: "x", mode: 0o644})))
		ended := startIn(t, s, "forkbomb")
		time.Sleep(time.Second)
		require.NoError(t, s.Quiesce(t.Context()))
		<-ended
		require.Equal(t, []string{"a"}, captured(t, s))
	})
}

// A24
func TestABackgroundWriterDoesNotHoldTheEndAndIsGoneBeforeCapture(t *testing.T) {
	t.Parallel()
	eachRuntime(t, func(t *testing.T, _ string, s *sandbox.Sandbox) {
		must(t, s, "background", "/workspace/moving")
		require.Equal(t, []string{"moving"}, captured(t, s))
		_, _, err := runIn(t, s, "echo")
		requireCode(t, err, evidence.CodeSessionStartFailed)
	})
}

// CASES 18
func TestOrphansAreCollectedAndDoNotFillTheProcessTable(t *testing.T) {
	t.Parallel()
	eachRuntime(t, func(t *testing.T, _ string, s *sandbox.Sandbox) {
		for range 5 {
			must(t, s, "orphans", "20") // 100 in all, at a limit of 80
		}
	})
}

// A24
func TestATimeoutEndsACommandThatIgnoresSignals(t *testing.T) {
	t.Parallel()
	eachRuntime(t, func(t *testing.T, _ string, s *sandbox.Sandbox) {
		_, err := s.Exec(t.Context(), sandbox.Command{Argv: []string{"testprog", "stubborn"}, Timeout: 500 * time.Millisecond})
		requireCode(t, err, evidence.CodeSessionTimeout)
		require.NoError(t, s.Quiesce(t.Context()))
	})
}

// A37
func TestCancellingEndsTheCommandWithTheCause(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, openVenue(t), testSpec(t, sandbox.RuntimeRunc))
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(300*time.Millisecond, func() { cancel(io.ErrClosedPipe) })
	_, err := s.Exec(ctx, sandbox.Command{Argv: []string{"testprog", "sleep", "1h"}})
	require.ErrorIs(t, err, io.ErrClosedPipe)
	require.Equal(t, "still here\n", must(t, s, "echo", "still here"))
}

// CASES 19
func TestALineOfAGibibyteIsCutAndReported(t *testing.T) {
	t.Parallel()
	eachRuntime(t, func(t *testing.T, _ string, s *sandbox.Sandbox) {
		var out bytes.Buffer
		exit, err := s.Exec(t.Context(), sandbox.Command{Argv: []string{"testprog", "line", "1073741824"}, Output: &out})
		requireCode(t, err, evidence.CodeOutputExceeded)
		require.True(t, exit.OutputTruncated)
		require.EqualValues(t, 1<<20, exit.OutputBytes)
		require.Equal(t, 1<<20, out.Len())
	})
}

// A24
func TestMemoryBeyondTheLimitIsReported(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, openVenue(t), testSpec(t, sandbox.RuntimeRunc))
	_, _, err := runIn(t, s, "eat", "536870912")
	requireCode(t, err, evidence.CodeMemoryExceeded)
	require.Equal(t, "alive\n", must(t, s, "echo", "alive"))
}

// A24, CASES 17
func TestDiskFileSizeAndInodesAreBounded(t *testing.T) {
	t.Parallel()
	eachRuntime(t, func(t *testing.T, runtime string, s *sandbox.Sandbox) {
		out, exit, err := runIn(t, s, "fill", "/tmp/full")
		require.NoError(t, err)
		require.NotZero(t, exit.Code)
		require.True(t, strings.HasPrefix(out, "16777216\n"), out)
		out, exit, err = runIn(t, s, "fill", "/workspace/full")
		require.NoError(t, err)
		require.NotZero(t, exit.Code, out) // the file size limit is as large as the workspace
		must(t, s, "remove", "/workspace/full")
		if runtime == sandbox.RuntimeRunc {
			refusedIn(t, s, "inodes", "/workspace", "10000")
		} else {
			require.Contains(t, s.Evidence().NotEnforced, sandbox.LimitInodes)
		}
	})
}

// A24
func TestAnOverfullArchiveIsADiskFailure(t *testing.T) {
	t.Parallel()
	spec := testSpec(t, sandbox.RuntimeRunc)
	spec.WorkspaceBytes = 1 << 20
	s := newSandbox(t, openVenue(t), spec)
	err := s.Unpack(t.Context(), tarOf(t, file{name: "big", content: strings.Repeat("x", 2<<20), mode: 0o644}))
	requireCode(t, err, evidence.CodeDiskExceeded)
}

// CASES 22
func TestUnpackFollowsNoLinkAndReplacesNothing(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, openVenue(t), testSpec(t, sandbox.RuntimeRunc))
	for name, files := range map[string][]file{
		"through a link":   {{name: "a", link: "/tmp"}, {name: "a/x", content: "x", mode: 0o644}},
		"over a link":      {{name: "b", link: "/tmp/target"}, {name: "b", content: "x", mode: 0o644}},
		"inside link":      {{name: "c/real", content: "x", mode: 0o644}, {name: "d", link: "c"}, {name: "d/y", content: "x", mode: 0o644}},
		"up":               {{name: "../tmp/x", content: "x", mode: 0o644}},
		"absolute":         {{name: "/tmp/x", content: "x", mode: 0o644}},
		"twice":            {{name: "e", content: "x", mode: 0o644}, {name: "e", content: "y", mode: 0o644}},
		"folder of a file": {{name: "f", content: "x", mode: 0o644}, {name: "f/g", content: "y", mode: 0o644}},
	} {
		requireCode(t, s.Unpack(t.Context(), tarOf(t, files...)), evidence.CodeSessionStartFailed)
		_, exit, err := runIn(t, s, "cat", "/tmp/x")
		require.NoError(t, err)
		require.NotZero(t, exit.Code, name)
	}
	cut := io.LimitReader(tarOf(t, file{name: "z", content: strings.Repeat("z", 1<<20), mode: 0o644}), 1000)
	requireCode(t, s.Unpack(t.Context(), cut), evidence.CodeSessionStartFailed)
}

// A24
func TestFullMountsAndMemoryLeaveTheInitAlive(t *testing.T) {
	t.Parallel()
	spec := testSpec(t, sandbox.RuntimeRunc)
	spec.MemoryBytes = 160 << 20 // the mounts, and the least that must be left beside them
	s := newSandbox(t, openVenue(t), spec)
	for _, dir := range []string{"/workspace", "/tmp", "/home/agent"} {
		_, exit, err := runIn(t, s, "fill", dir+"/full")
		require.NoError(t, err)
		require.NotZero(t, exit.Code)
	}
	_, _, err := runIn(t, s, "eat", "268435456")
	requireCode(t, err, evidence.CodeMemoryExceeded)
	b := bounds
	b.FileBytes, b.Bytes = 1<<30, 1<<30
	var size int64
	require.NoError(t, s.Capture(t.Context(), b, nil, func(e sandbox.Entry) error {
		size += e.Size
		return nil
	}))
	require.Positive(t, size)
}

// A23
func TestAnImageThatHoldsAnEnginesSocketIsRefusedAndTornDown(t *testing.T) {
	t.Parallel()
	v := openVenue(t)
	spec := testSpec(t, sandbox.RuntimeRunc)
	spec.Image = imageWith(t, "run/docker.sock")
	id := testIdentity()
	_, err := v.Create(t.Context(), spec, id)
	requireCode(t, err, evidence.CodeReachabilityAmbiguous)
	_, err = dockerClient(t).ContainerInspect(t.Context(), "harness-"+id.Run+"-1")
	require.True(t, cerrdefs.IsNotFound(err))
}

// CASES 24
func TestAnImageThatCannotRunTheInitIsRefusedAndTornDown(t *testing.T) {
	t.Parallel()
	v := openVenue(t)
	spec := testSpec(t, sandbox.RuntimeRunc)
	spec.Image = imageWith(t, ".harness") // a file where the init's folder must be
	id := testIdentity()
	_, err := v.Create(t.Context(), spec, id)
	requireCode(t, err, evidence.CodeSandboxCreateFailed)
	_, err = dockerClient(t).ContainerInspect(t.Context(), "harness-"+id.Run+"-1")
	require.True(t, cerrdefs.IsNotFound(err))
}
