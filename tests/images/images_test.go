package images_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/tests/images"
)

func TestTwoBuildsGiveTheSameArchive(t *testing.T) {
	t.Parallel()
	checkout, err := filepath.Abs("../..")
	require.NoError(t, err)
	first, err := images.Build(t.Context(), checkout, t.TempDir(), t.Logf)
	require.NoError(t, err)
	second, err := images.Build(t.Context(), checkout, t.TempDir(), t.Logf)
	require.NoError(t, err)
	require.NotEmpty(t, first)
	for i := range first {
		require.Equal(t, first[i].ID, second[i].ID)
		one, err := os.ReadFile(first[i].Archive)
		require.NoError(t, err)
		other, err := os.ReadFile(second[i].Archive)
		require.NoError(t, err)
		require.Equal(t, one, other)
	}
}

func TestABuiltImageIsFoundInTheCache(t *testing.T) {
	t.Parallel()
	checkout, err := filepath.Abs("../..")
	require.NoError(t, err)
	cache := t.TempDir()
	first, err := images.Build(t.Context(), checkout, cache, t.Logf)
	require.NoError(t, err)
	again, err := images.Build(t.Context(), checkout, cache, func(format string, arguments ...any) {
		t.Errorf(format, arguments...)
	})
	require.NoError(t, err)
	require.Equal(t, first, again)
}
