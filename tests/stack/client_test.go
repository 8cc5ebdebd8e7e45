package stack_test

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// client runs git as somebody's own machine has it, with only the given credentials.
func client(t *testing.T, environment []string, arguments ...string) error {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", arguments...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GIT_TERMINAL_PROMPT=0", "GIT_CONFIG_NOSYSTEM=1"}, environment...)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("git %s: %w: %s", arguments[0], err, output)
	}
	return nil
}
