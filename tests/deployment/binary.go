package deployment

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "harness-binary-")
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "harness"), nil
})

var compile sync.Once

// Binary builds the real binary once per test process, as it is released: static, since it is the sandbox's init too.
func Binary(t testing.TB) string {
	t.Helper()
	path, err := build()
	require.NoError(t, err)
	compile.Do(func() {
		command := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, "./cmd/harness")
		command.Dir = root(t)
		command.Env = append(os.Environ(), "CGO_ENABLED=0")
		output, err := command.CombinedOutput()
		require.NoError(t, err, "%s", output)
	})
	return path
}
