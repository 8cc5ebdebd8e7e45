package machine_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/internal/machine"
)

func TestFreeMemoryAndDiskAreKnown(t *testing.T) {
	t.Parallel()
	memory, err := machine.FreeMemory()
	require.NoError(t, err)
	require.Positive(t, memory)
	disk, err := machine.FreeDisk(t.TempDir())
	require.NoError(t, err)
	require.Positive(t, disk)
}

func TestFreeDiskOfAMissingFolderIsAnError(t *testing.T) {
	t.Parallel()
	_, err := machine.FreeDisk("/nowhere/at/all")
	require.Error(t, err)
}
