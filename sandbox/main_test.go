package sandbox_test

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
	"github.com/rein-aharness/harness/sandbox"
	"github.com/rein-aharness/harness/tests/stack"
)

// The built programs and the imported image, made once for all tests of the package.
var (
	buildDir string
	imageFor = sync.OnceValues(func() (string, error) { return importImage("") })
)

const testEngine = "sandbox-test"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(playRole(role))
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "sandbox-test")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	buildDir = dir
	for _, name := range []string{"initbin", "testprog"} {
		build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=", "-o", filepath.Join(dir, name), "./internal/"+name)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build %s: %v\n%s", name, err, out)
			return 1
		}
	}
	code := m.Run()
	if err := removeImage(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}

// removeImage takes the image of all tests away again, where one was made.
func removeImage() error {
	host, ok := imageHost.Load().(string)
	if !ok {
		return nil
	}
	id, err := imageFor()
	if err != nil {
		return nil // a test has failed for it
	}
	c, err := client.NewClientWithOpts(client.WithHost(host), client.WithAPIVersionNegotiation())
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.ImageRemove(context.Background(), id, image.RemoveOptions{Force: true})
	return err
}

func initBinary() string { return filepath.Join(buildDir, "initbin") }

// dockerClient speaks to the engine beside the venue: what it sees is not what the product says of itself.
func dockerClient(t testing.TB) *client.Client {
	t.Helper()
	c, err := client.NewClientWithOpts(client.WithHost(stack.Load(t).DockerHost()), client.WithAPIVersionNegotiation())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

var imageHost atomic.Value

// testImage returns the id of an image that holds testprog and nothing else.
func testImage(t testing.TB) string {
	t.Helper()
	imageHost.Store(stack.Load(t).DockerHost())
	id, err := imageFor()
	require.NoError(t, err)
	return id
}

// imageWith returns the id of an image like testImage's that also holds an empty file of that name.
func imageWith(t testing.TB, name string) string {
	t.Helper()
	testImage(t)
	id, err := importImage(name)
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = dockerClient(t).ImageRemove(context.Background(), id, image.RemoveOptions{Force: true}) })
	return id
}

// importImage gives the engine an image with testprog, and with an empty file of the name extra where there is one.
func importImage(extra string) (string, error) {
	prog, err := os.ReadFile(filepath.Join(buildDir, "testprog"))
	if err != nil {
		return "", err
	}
	var buf bytes.Buffer
	tw := tar.NewWriter(&buf)
	for _, dir := range []string{"bin", "workspace", "home", "home/agent", "tmp", "run", "run/harness", "etc"} {
		if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755}); err != nil {
			return "", err
		}
	}
	if err := tw.WriteHeader(&tar.Header{Name: "bin/testprog", Mode: 0o755, Size: int64(len(prog))}); err != nil {
		return "", err
	}
	if _, err := tw.Write(prog); err != nil {
		return "", err
	}
	if extra != "" {
		if err := tw.WriteHeader(&tar.Header{Name: extra, Mode: 0o644}); err != nil {
			return "", err
		}
	}
	if err := tw.Close(); err != nil {
		return "", err
	}
	c, err := client.NewClientWithOpts(client.WithHost(imageHost.Load().(string)), client.WithAPIVersionNegotiation())
	if err != nil {
		return "", err
	}
	defer c.Close()
	out, err := c.ImageImport(context.Background(), image.ImportSource{Source: &buf, SourceName: "-"}, "", image.ImportOptions{Changes: []string{"ENV IMAGE_SAYS=hello"}})
	if err != nil {
		return "", err
	}
	defer out.Close()
	dec := json.NewDecoder(out)
	for {
		var line struct {
			Status string `json:"status"`
			Error  string `json:"error"`
		}
		err := dec.Decode(&line)
		switch {
		case errors.Is(err, io.EOF):
			return "", errors.New("the engine gave no image id")
		case err != nil:
			return "", err
		case line.Error != "":
			return "", errors.New(line.Error)
		case strings.HasPrefix(line.Status, "sha256:"):
			return line.Status, nil
		}
	}
}

func openVenue(t testing.TB) *sandbox.Venue {
	t.Helper()
	return openVenueWith(t, sandbox.Config{})
}

func openVenueWith(t testing.TB, cfg sandbox.Config) *sandbox.Venue {
	t.Helper()
	cfg.Host, cfg.Engine, cfg.Binary = stack.Load(t).DockerHost(), testEngine, initBinary()
	v, err := sandbox.Open(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, v.Close()) })
	return v
}

func testSpec(t testing.TB, runtime string) sandbox.Spec {
	t.Helper()
	return sandbox.Spec{
		Revision: "test@1", Image: testImage(t), Runtime: runtime,
		MemoryBytes: 256 << 20, CPUMillis: 1000, Pids: 80, FileBytes: 64 << 20, OpenFiles: 256,
		WorkspaceBytes: 64 << 20, WorkspaceInodes: 4096, HomeBytes: 16 << 20, TmpBytes: 16 << 20,
		TTLSeconds: 120, OutputBytes: 1 << 20,
	}
}

var identities atomic.Int64

func testIdentity() sandbox.Identity {
	return sandbox.Identity{
		Run: fmt.Sprintf("test-%d-%d", os.Getpid(), identities.Add(1)), Epoch: 1, Owner: "worker/nonce",
		Actor: evidence.ActorAgent, ExpiresAt: time.Now().Add(10 * time.Minute),
	}
}

func newSandbox(t testing.TB, v *sandbox.Venue, spec sandbox.Spec) *sandbox.Sandbox {
	t.Helper()
	s, err := v.Create(t.Context(), spec, testIdentity())
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		torn, err := s.Destroy(ctx)
		require.NoError(t, err)
		require.True(t, torn.ContainerGone)
	})
	return s
}

// runIn runs testprog in s and returns what it wrote.
func runIn(t testing.TB, s *sandbox.Sandbox, args ...string) (string, sandbox.Exit, error) {
	t.Helper()
	var out bytes.Buffer
	exit, err := s.Exec(t.Context(), sandbox.Command{Argv: append([]string{"testprog"}, args...), Output: &out, Timeout: 60 * time.Second})
	return out.String(), exit, err
}

// must runs testprog in s and requires that it succeeds.
func must(t testing.TB, s *sandbox.Sandbox, args ...string) string {
	t.Helper()
	out, exit, err := runIn(t, s, args...)
	require.NoError(t, err)
	require.Zero(t, exit.Code, out)
	return out
}

func requireCode(t testing.TB, err error, code evidence.Code) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, code, evidence.CodeOf(err), "%v", err)
}
