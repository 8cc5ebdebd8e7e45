package deployment

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/tests/stack"
)

// binary is one build of the command, made once per test process.
type binary struct {
	tags string
	at   string // commit of this repository; empty, the tree as it is
	once sync.Once
	path string
	err  error
}

var (
	released   = &binary{}
	failpoints = &binary{tags: "failpoint"}
)

// Binary builds the real binary once per test process, as it is released: static, since it is the sandbox's init too.
func Binary(t testing.TB) string {
	t.Helper()
	return released.build(t)
}

// FailpointBinary is the same with the points at which a test can end it.
func FailpointBinary(t testing.TB) string {
	t.Helper()
	return failpoints.build(t)
}

// BinaryAt builds the command as it was at a commit of this repository.
func BinaryAt(t testing.TB, commit string) string {
	t.Helper()
	return (&binary{at: commit}).build(t)
}

func (b *binary) build(t testing.TB) string {
	t.Helper()
	b.once.Do(func() {
		// With the stack's data, so that it goes with the stack: nothing runs when a test process ends.
		dir, err := os.MkdirTemp(stack.Load(t).Data, "harness-binary-")
		if err != nil {
			b.err = err
			return
		}
		b.path = filepath.Join(dir, "harness")
		command := exec.Command("go", "build", "-trimpath", "-tags="+b.tags, "-ldflags=-s -w", "-o", b.path, "./cmd/harness")
		command.Dir = b.source(t, dir)
		command.Env = append(os.Environ(), "CGO_ENABLED=0")
		if output, err := command.CombinedOutput(); err != nil {
			t.Logf("%s", output)
			b.err = err
		}
	})
	require.NoError(t, b.err)
	return b.path
}

// source is the folder to build in: the repository, or what it was at the commit.
func (b *binary) source(t testing.TB, dir string) string {
	t.Helper()
	if b.at == "" {
		return root(t)
	}
	archive := exec.Command("git", "archive", "--output", filepath.Join(dir, "source.tar"), b.at)
	archive.Dir = root(t)
	output, err := archive.CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "source"), 0o755))
	output, err = exec.Command("tar", "-xf", filepath.Join(dir, "source.tar"), "-C", filepath.Join(dir, "source")).CombinedOutput()
	require.NoError(t, err, "%s", output)
	return filepath.Join(dir, "source")
}
