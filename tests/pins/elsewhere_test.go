package pins_test

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness"
	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/profiles"
	"github.com/rein-aharness/harness/repotx"
	"github.com/rein-aharness/harness/tests/deployment"
)

// A14, A26: a refused resolution, a failed sandbox, a failed session and a failed teardown lead to nothing else. The worker finds only
// poison where programs would be, and calls none; no file of the repository comes to lie on the host; the remote gets no commit.
//
// It is not parallel: it exchanges the search path and the temporary folder of the whole process.
func TestAFailureLeadsToNoOtherExecutorAndNoCheckout(t *testing.T) {
	watching := &watcher{steps: map[harness.Progress]func(){}}
	d := deployment.New(t, deployment.Settings{Concurrency: 1})
	docker, err := client.NewClientWithOpts(client.WithHost(d.Stack.DockerHost()), client.WithAPIVersionNegotiation())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, docker.Close()) })
	wire := cuttable(t, strings.TrimPrefix(d.Stack.DockerHost(), "unix://"))
	d.Config.Engine.Host = "unix://" + wire.path
	p := &place{
		Deployment: d, h: d.Open(t, harness.Options{Watch: watching.watch}), engine: deployment.WatchEngine(t, d.Stack),
		repo: d.Stack.Repository(t, "elsewhere", files),
	}
	passing := imported(t, docker)
	blocked := p.format(t, "blocked")
	refused := p.emit(t, "resolution", blocked)
	require.NoError(t, p.h.Profiles().Block(t.Context(), blocked.Digest, "unsafe", "test"))
	unmade := p.emit(t, "sandbox", p.format(t, "imageless", func(profile *profiles.Profile) { profile.Sandbox.Image = passing }))
	watching.on(unmade.ID, harness.Progress{Stage: evidence.StagePreflight, Done: true}, func() { remove(t, docker, passing) })
	failed := p.emit(t, "session", p.format(t, "failing", func(profile *profiles.Profile) {
		profile.Rein.Argv = []string{"/usr/local/bin/gofumpt", "-l", "-w", "a.go", "missing.go"}
	}))
	left := p.emit(t, "teardown", p.format(t, "left"))
	watching.on(left.ID, harness.Progress{Stage: evidence.StageTeardown}, wire.cut)

	poison, temporary := t.TempDir(), t.TempDir()
	marks := poisoned(t, poison)
	path := os.Getenv("PATH")
	t.Setenv("PATH", poison)
	t.Setenv("TMPDIR", temporary)
	stop := deployment.Serve(t, p.h)
	refused, unmade, failed, left = p.wait(t, refused), p.wait(t, unmade), p.wait(t, failed), p.wait(t, left)
	stop()
	t.Setenv("PATH", path)

	require.Equal(t, evidence.CodeProfileBlocked, refused.Code)
	require.Equal(t, evidence.CodeImageMissing, unmade.Code)
	require.Equal(t, evidence.StageSandbox, unmade.FailedStage)
	require.Equal(t, evidence.CodeSessionFailed, failed.Code)
	require.Equal(t, evidence.CodeTeardownFailed, left.Code)
	torn := fact[evidence.TornDown](t, p.h, left)
	require.False(t, torn.Clean(), "%+v", torn)

	require.NoFileExists(t, marks, "a program was called")
	for _, dir := range []string{d.Dir, temporary} {
		require.Empty(t, checkouts(t, dir))
	}
	refs := p.repo.Refs(t)
	require.Equal(t, p.repo.Baseline, refs[trunk])
	for ref := range refs {
		require.True(t, ref == trunk || strings.HasPrefix(ref, "refs/harness/"), ref)
	}
	for _, run := range []struct {
		id     string
		epoch  int64
		fenced bool
	}{{refused.ID, refused.Epoch, false}, {unmade.ID, unmade.Epoch, false}, {failed.ID, failed.Epoch, true}, {left.ID, left.Epoch, true}} {
		fence, err := repotx.FenceRef(run.id)
		require.NoError(t, err)
		if value, found := refs[fence]; found || run.fenced {
			require.Equal(t, repotx.TombstoneValue(run.id, run.epoch), value)
		}
		deployment.Verify(t, p.h, run.id)
	}
	// The sandbox that could not be torn down ended with its wire.
	require.Eventually(t, func() bool {
		running, err := docker.ContainerList(t.Context(), container.ListOptions{Filters: filters.NewArgs(filters.Arg("label", "harness.run="+left.ID))})
		return err == nil && len(running) == 0
	}, 30*time.Second, 100*time.Millisecond)
	remains, err := docker.ContainerList(t.Context(), container.ListOptions{
		All: true, Filters: filters.NewArgs(filters.Arg("label", "harness.run="+left.ID)),
	})
	require.NoError(t, err)
	for _, c := range remains {
		require.NoError(t, docker.ContainerRemove(t.Context(), c.ID, container.RemoveOptions{Force: true, RemoveVolumes: true}))
	}
}

// poisoned fills a folder with programs that leave a mark when they are called.
func poisoned(t testing.TB, dir string) (marks string) {
	t.Helper()
	marks = filepath.Join(t.TempDir(), "called")
	for _, name := range []string{
		"git", "git-upload-pack", "git-receive-pack", "docker", "runc", "runsc", "containerd", "sh", "bash", "ssh", "tar", "cp", "make", "go",
		"gofumpt", "vault", "python3", "node",
	} {
		script := fmt.Sprintf("#!/bin/sh\necho \"$0 $*\" >>%q\nexit 1\n", marks)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700))
	}
	return marks
}

// checkouts are the files below a folder that are a file of the repository: by name or by content.
func checkouts(t testing.TB, dir string) []string {
	t.Helper()
	var found []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if _, named := files[entry.Name()]; named || entry.Name() == ".git" {
			found = append(found, path)
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte("func  f()")) {
			found = append(found, path)
		}
		return err
	}))
	return found
}

// imported is an image of the engine that nobody else uses.
func imported(t testing.TB, docker *client.Client) string {
	t.Helper()
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	content := []byte(t.Name() + time.Now().String())
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "file", Mode: 0o644, Size: int64(len(content))}))
	_, err := w.Write(content)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	answer, err := docker.ImageImport(t.Context(), image.ImportSource{Source: &layer, SourceName: "-"}, "", image.ImportOptions{})
	require.NoError(t, err)
	said, err := io.ReadAll(answer)
	require.NoError(t, err)
	require.NoError(t, answer.Close())
	at := bytes.Index(said, []byte("sha256:"))
	require.GreaterOrEqual(t, at, 0, "%s", said)
	id := string(said[at : at+len("sha256:")+64])
	t.Cleanup(func() { remove(t, docker, id) })
	return id
}

// remove removes an image, if it is there.
func remove(t testing.TB, docker *client.Client, id string) {
	t.Helper()
	_, err := docker.ImageRemove(context.WithoutCancel(t.Context()), id, image.RemoveOptions{Force: true})
	require.True(t, err == nil || cerrdefs.IsNotFound(err), "%v", err)
}

// connection is a way to the engine that can be cut.
type connection struct {
	path string

	mu   sync.Mutex
	gone bool
	open []net.Conn
}

func cuttable(t testing.TB, engine string) *connection {
	t.Helper()
	dir, err := os.MkdirTemp("", "engine") // short enough for a socket's path
	require.NoError(t, err)
	c := &connection{path: filepath.Join(dir, "engine.sock")}
	listener, err := net.Listen("unix", c.path)
	require.NoError(t, err)
	go func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			go c.carry(in, engine)
		}
	}()
	t.Cleanup(func() {
		require.NoError(t, listener.Close())
		c.cut()
		require.NoError(t, os.RemoveAll(dir))
	})
	return c
}

func (c *connection) carry(in net.Conn, engine string) {
	out, err := net.Dial("unix", engine)
	if err != nil {
		_ = in.Close()
		return
	}
	c.mu.Lock()
	c.open = append(c.open, in, out)
	gone := c.gone
	c.mu.Unlock()
	if gone {
		c.cut()
		return
	}
	for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
		go func() {
			_, _ = io.Copy(way[0], way[1]) // ends with either side
			_ = way[0].Close()
		}()
	}
}

// cut ends every connection that there is, and every further one at once.
func (c *connection) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
	for _, open := range c.open {
		_ = open.Close() // it may be closed
	}
}
