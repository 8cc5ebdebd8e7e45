package lease_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/tests/deployment"
)

func TestNoFailpointIsInTheReleasedBinary(t *testing.T) {
	t.Parallel()
	released, err := os.ReadFile(deployment.Binary(t))
	require.NoError(t, err)
	tagged, err := os.ReadFile(deployment.FailpointBinary(t))
	require.NoError(t, err)
	for _, name := range []string{
		"HARNESS_FAILPOINTS", "HARNESS_HISTORY", ".goroutines", "claim.before", "claim.after", "preflight.started", "accept.before_intent", "accept.after_intent", "accept.before_send", "accept.after_send",
		"close.after_sign",
	} {
		require.False(t, bytes.Contains(released, []byte(name)), name)
		require.True(t, bytes.Contains(tagged, []byte(name)), name)
	}
}
