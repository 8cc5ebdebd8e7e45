package queue

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// CASES 14
func TestLeaseIsTrustedByTheClockThatSaysMoreHasPassed(t *testing.T) {
	t.Parallel()
	c := Config{TTL: 30 * time.Second, Margin: 3 * time.Second}
	beat := time.Now()
	for name, x := range map[string]struct {
		now  time.Time
		left time.Duration
	}{
		"at once":               {beat, 27 * time.Second},
		"later":                 {beat.Add(10 * time.Second), 17 * time.Second},
		"at the end":            {beat.Add(27 * time.Second), 0},
		"after a suspension":    {wallOnly(beat, 5*time.Minute), -273 * time.Second},
		"the wall was set back": {beat.Add(-time.Hour).Round(0), 27*time.Second + time.Hour},
	} {
		require.Equal(t, x.left, c.holds(beat, x.now), name)
	}
	// With a monotonic reading that has gone on, a wall clock that was set back changes nothing.
	require.Equal(t, 17*time.Second, c.holds(beat, beat.Add(10*time.Second)))
}

// wallOnly is a time whose wall clock has gone on by d: what a reading looks like after the machine slept.
func wallOnly(t time.Time, d time.Duration) time.Time { return t.Round(0).Add(d) }

// A51
func TestDatabaseThatWasSetBackIsNoticed(t *testing.T) {
	t.Parallel()
	var seen seenLog
	for _, step := range []struct {
		lsn, adopted string
		back         bool
	}{
		{"1/0", "", false},
		{"2/0", "", false},
		{"1/FFFFFF00", "", false}, // overtaken by another transaction of the process
		{"1/0", "", true},
		{"1/0", "", true},
		{"1/0", "2026-01-01", false}, // adopted
		{"0/0", "2026-01-01", true},
	} {
		back, err := seen.wentBack(step.lsn, step.adopted)
		require.NoError(t, err)
		require.Equal(t, step.back, back, step.lsn)
	}
	_, err := seen.wentBack("nonsense", "")
	require.Error(t, err)
}

func TestRetriesOfADeliveryAreBounded(t *testing.T) {
	t.Parallel()
	require.Equal(t, firstRetry, retryAfter(1))
	require.Equal(t, 2*firstRetry, retryAfter(2))
	require.Equal(t, longestRetry, retryAfter(1000))
}
