package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCommandsRunInOrderUntilOneFails(t *testing.T) {
	t.Parallel()
	first, second := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	require.Error(t, runAll([]string{"write", first, "1", ";", "expect", first, "2", ";", "write", second, "1"}))
	require.FileExists(t, first)
	require.NoFileExists(t, second)
}

func TestPrefixesTurnFailuresButNotMistakes(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "missing")
	require.NoError(t, runAll([]string{"not", "cat", missing}))
	require.NoError(t, runAll([]string{"try", "cat", missing}))
	require.Error(t, runAll([]string{"not", "write", missing, ""}))
	for _, mistake := range [][]string{{"not", "unheard-of"}, {"try", "unheard-of"}, {"not", "cat"}, {"not"}, {";"}} {
		require.ErrorIs(t, runAll(mistake), errUsage, "%q", mistake)
	}
}

func TestQuotedArgumentsMayHoldAnyByte(t *testing.T) {
	t.Parallel()
	plain, err := unquote([]string{`q:a\nb\xff`, "as it is\\n"})
	require.NoError(t, err)
	require.Equal(t, []string{"a\nb\xff", "as it is\\n"}, plain)
	_, err = unquote([]string{`q:\`})
	require.Error(t, err)
}

func TestDeepMakesAChainOfFolders(t *testing.T) { // changes the working directory: not parallel
	folder := t.TempDir()
	require.NoError(t, deep(folder, 50))
	require.FileExists(t, filepath.Join(folder, strings.Repeat("d/", 50), "end"))
}
