//go:build failpoint

package failpoint

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestActionsAreReadStrictly(t *testing.T) {
	t.Parallel()
	for _, setting := range []string{"accept.before_send", "=kill", "a=", "a=explode", "a=sleep:soon", "a=kill,", "a=hold:"} {
		_, err := parse(setting)
		require.Error(t, err, setting)
	}
	points, err := parse("a=error,b=sleep:1ms,c=kill,d=stop")
	require.NoError(t, err)
	require.Len(t, points, 4)
	require.ErrorIs(t, points["a"](), ErrArmed)
	before := time.Now()
	require.NoError(t, points["b"]())
	require.GreaterOrEqual(t, time.Since(before), time.Millisecond)
}

func TestAHeldPointGoesOnWhenItsFileIsRemovedAndHoldsOnce(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "held")
	points, err := parse("a=hold:" + file)
	require.NoError(t, err)
	passed := make(chan error, 1)
	go func() { passed <- points["a"]() }()
	require.Eventually(t, func() bool { _, err := os.Stat(file); return err == nil }, 5*time.Second, time.Millisecond)
	require.Empty(t, passed)
	require.NoError(t, os.Remove(file))
	require.NoError(t, <-passed)
	require.NoError(t, points["a"]())
	require.NoFileExists(t, file)
}

func TestAPointThatIsNotArmedDoesNothing(t *testing.T) {
	t.Parallel()
	require.NoError(t, Hit(AcceptBeforeSend))
	done := false
	require.NoError(t, Around("session", func() error { done = true; return nil }))
	require.True(t, done)
}
