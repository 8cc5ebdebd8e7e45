//go:build failpoint

package failpoint

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestActionsAreReadStrictly(t *testing.T) {
	t.Parallel()
	for _, setting := range []string{"accept.before_send", "=kill", "a=", "a=explode", "a=sleep:soon", "a=kill,"} {
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

func TestAPointThatIsNotArmedDoesNothing(t *testing.T) {
	t.Parallel()
	require.NoError(t, Hit(AcceptBeforeSend))
	done := false
	require.NoError(t, Around("session", func() error { done = true; return nil }))
	require.True(t, done)
}
