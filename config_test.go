package harness_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness"
	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/profiles"
	"github.com/rein-aharness/harness/queue"
)

// A6: the shipped example is whole, and none of its profiles says of itself that it is ready.
func TestShippedConfigurationIsWhole(t *testing.T) {
	t.Parallel()
	config, err := harness.ReadConfig("configs/harness.yaml")
	require.NoError(t, err)
	_, err = evidence.LoadTrust(config.Signing.TrustFile)
	require.NoError(t, err)
	catalog, err := profiles.Catalog(os.DirFS(config.Catalog))
	require.NoError(t, err)
	require.NotEmpty(t, catalog)
	data, err := os.ReadFile("configs/definition.yaml")
	require.NoError(t, err)
	definition, err := queue.ParseDefinition(data)
	require.NoError(t, err)
	require.NoError(t, definition.Request(queue.Occasion{TriggerKey: "first"}).Validate())
}

// A29: a document with a field that it does not know, or a missing part, is refused with what to do.
func TestConfigurationIsStrict(t *testing.T) {
	t.Parallel()
	whole, err := os.ReadFile("configs/harness.yaml")
	require.NoError(t, err)
	for name, c := range map[string]struct{ document, want string }{
		"unknown field": {string(whole) + "\nsurprise: 1\n", "surprise"},
		"nothing":       {"catalog: c\n", "database.url_file is missing"},
		"short lease":   {string(whole) + "\nlease: {ttl_seconds: 1}\n", "lease.ttl_seconds must be 3 to 3600"},
		"slow beat":     {string(whole) + "\nlease: {ttl_seconds: 10, heartbeat_seconds: 5}\n", "lease.heartbeat_seconds"},
		"short fence":   {string(whole) + "\nretention: {fence_hours: 1}\n", "retention.fence_hours"},
		"no worker":     {string(whole) + "\nworker: {concurrency: 1000}\n", "worker.concurrency"},
		"half delivery": {string(whole) + "\ndeliveries: [{name: a, url: \"https://example.org\"}]\n", "key_file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "harness.yaml")
			require.NoError(t, os.WriteFile(file, []byte(c.document), 0o600))
			_, err := harness.ReadConfig(file)
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestDefinitionIsStrict(t *testing.T) {
	t.Parallel()
	_, err := queue.ParseDefinition([]byte("version: 2\nname: a\n"))
	require.Equal(t, evidence.CodeContractInvalid, evidence.CodeOf(err))
	_, err = queue.ParseDefinition([]byte("version: 1\nname: a\nanything: b\n"))
	require.Equal(t, evidence.CodeContractInvalid, evidence.CodeOf(err))
}
