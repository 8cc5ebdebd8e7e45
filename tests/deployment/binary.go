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
		command.Dir = root(t)
		command.Env = append(os.Environ(), "CGO_ENABLED=0")
		if output, err := command.CombinedOutput(); err != nil {
			t.Logf("%s", output)
			b.err = err
		}
	})
	require.NoError(t, b.err)
	return b.path
}
