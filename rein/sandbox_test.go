package rein_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/rein"
	"github.com/rein-aharness/harness/rein/credential"
	"github.com/rein-aharness/harness/sandbox"
	"github.com/rein-aharness/harness/tests/stack"
)

var buildDir string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "rein-test")
	if err != nil {
		panic(err)
	}
	buildDir = dir
	code := m.Run()
	err = errors.Join(os.RemoveAll(dir), goleak.Find())
	if code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// programs are built once: the sandbox's init and the test program.
var programs = sync.OnceValue(func() error {
	for name, source := range map[string]string{"init": "../sandbox/internal/initbin", "testprog": "./internal/testprog"} {
		build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=", "-o", filepath.Join(buildDir, name), source)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", name, err, out)
		}
	}
	return nil
})

func engine(t testing.TB) *client.Client {
	t.Helper()
	c, err := client.NewClientWithOpts(client.WithHost(stack.Load(t).DockerHost()), client.WithAPIVersionNegotiation())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// newImage imports an image that holds the test program alone, and removes it at the end.
func newImage(t testing.TB) string {
	t.Helper()
	program, err := os.ReadFile(filepath.Join(buildDir, "testprog"))
	require.NoError(t, err)
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, dir := range []string{"bin", "workspace", "home", "home/agent", "tmp", "run", "run/harness", "etc", strings.ToLower(t.Name())} {
		require.NoError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755}))
	}
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "bin/testprog", Mode: 0o755, Size: int64(len(program))}))
	_, err = w.Write(program)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	c := engine(t)
	answer, err := c.ImageImport(t.Context(), image.ImportSource{Source: &archive, SourceName: "-"}, "", image.ImportOptions{})
	require.NoError(t, err)
	defer answer.Close()
	text, err := io.ReadAll(answer)
	require.NoError(t, err)
	var line struct {
		Status string `json:"status"`
	}
	require.NoError(t, json.NewDecoder(bytes.NewReader(text)).Decode(&line), "%s", text)
	require.Regexp(t, "^sha256:", line.Status, "%s", text)
	t.Cleanup(func() {
		_, err := c.ImageRemove(context.Background(), line.Status, image.RemoveOptions{Force: true})
		require.NoError(t, err)
	})
	return line.Status
}

var identities atomic.Int64

func newSandbox(t *testing.T, runtime string) *sandbox.Sandbox {
	t.Helper()
	require.NoError(t, programs())
	spec := sandbox.Spec{
		Revision: "test@1.0.0", Image: newImage(t), Runtime: runtime,
		MemoryBytes: 256 << 20, CPUMillis: 1000, Pids: 64, FileBytes: 64 << 20, OpenFiles: 256,
		WorkspaceBytes: 64 << 20, WorkspaceInodes: 4096, HomeBytes: 16 << 20, TmpBytes: 16 << 20, TTLSeconds: 120, OutputBytes: 1 << 20,
	}
	venue, err := sandbox.Open(t.Context(), sandbox.Config{
		Host: stack.Load(t).DockerHost(), Engine: "rein-test", Binary: filepath.Join(buildDir, "init"),
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, venue.Close()) })
	box, err := venue.Create(t.Context(), spec, sandbox.Identity{
		Run: fmt.Sprintf("rein-test-%d-%d", os.Getpid(), identities.Add(1)), Epoch: 1, Owner: "worker/nonce", Actor: evidence.ActorAgent,
		ExpiresAt: time.Now().Add(10 * time.Minute),
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := box.Destroy(context.Background())
		require.NoError(t, err)
	})
	return box
}

// A27, A28, A31, CASES 21, 41
func TestInTheRealSandboxCredentialsReachTheSessionAndNothingElse(t *testing.T) {
	t.Parallel()
	for _, runtime := range []string{sandbox.RuntimeRunc, sandbox.RuntimeRunsc} {
		t.Run(runtime, func(t *testing.T) {
			t.Parallel()
			box := newSandbox(t, runtime)
			var log bytes.Buffer
			ended, err := rein.Run(t.Context(), box, session("/bin/testprog", "report"), &log)
			require.NoError(t, err, "%s", log.String())
			text := log.String()
			require.Contains(t, text, `args ["/bin/testprog" "report"]`)
			require.Contains(t, text, "run run-1\ntask do it\nfile "+credential.Redacted+"\n")
			require.Contains(t, text, "DEMO="+credential.Redacted)
			require.NotContains(t, text, canary)
			require.NotContains(t, text, "\x1b")
			require.EqualValues(t, len(text), ended.OutputBytes)

			_, raw, err := engine(t).ContainerInspectWithRaw(t.Context(), box.ID(), false)
			require.NoError(t, err)
			require.NotContains(t, string(raw), canary)
			require.NotContains(t, string(raw), "do it")
		})
	}
}

// A43, CASES 19
func TestInTheRealSandboxEachEndHasItsCode(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		argv []string
		code evidence.Code
	}{
		"code":    {[]string{"/bin/testprog", "exit", "7"}, evidence.CodeSessionFailed},
		"timeout": {[]string{"/bin/testprog", "sleep"}, evidence.CodeSessionTimeout},
		"flood":   {[]string{"/bin/testprog", "flood"}, evidence.CodeOutputExceeded},
		"missing": {[]string{"/bin/nothing"}, evidence.CodeSessionStartFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			box := newSandbox(t, sandbox.RuntimeRunc)
			s := session(c.argv...)
			s.Spec.TimeoutSeconds = 3
			s.LogBytes = 1 << 12
			var log bytes.Buffer
			ended, err := rein.Run(t.Context(), box, s, &log)
			require.Equal(t, c.code, evidence.CodeOf(err), "%v", err)
			require.LessOrEqual(t, log.Len(), 1<<12+100)
			if name == "code" {
				require.Equal(t, 7, ended.ExitCode)
			}
			if name == "flood" {
				require.True(t, ended.OutputTruncated)
			}
		})
	}
}

// A37: what ended the run's lease is what the session reports.
func TestACancelledSessionReportsTheCause(t *testing.T) {
	t.Parallel()
	box := newSandbox(t, sandbox.RuntimeRunc)
	lost := errors.New("lease lost")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(500*time.Millisecond, func() { cancel(lost) })
	_, err := rein.Run(ctx, box, session("/bin/testprog", "sleep"), &bytes.Buffer{})
	require.ErrorIs(t, err, lost)
}
