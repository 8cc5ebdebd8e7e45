package stack_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/tests/stack"
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

// docker asks an engine's API and returns the answer.
func docker(t *testing.T, s *stack.Stack, path string) string {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", strings.TrimPrefix(s.DockerHost(), "unix://"))
		},
		DisableKeepAlives: true,
	}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://engine"+path, nil)
	require.NoError(t, err)
	response, err := client.Do(request)
	require.NoError(t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return string(body)
}
