package queue

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/internal/boottime"
)

// CASES 14
func TestLeaseIsTrustedForTheTTLLessTheMarginFromItsLastRenewal(t *testing.T) {
	t.Parallel()
	c := Config{TTL: 30 * time.Second, Margin: 3 * time.Second}
	for since, left := range map[time.Duration]time.Duration{
		0: 27 * time.Second, 10 * time.Second: 17 * time.Second, 27 * time.Second: 0, 5 * time.Minute: -273 * time.Second,
	} {
		require.Equal(t, left, c.holds(since))
	}
}

// CASES 12
func TestTimeIsTheDatabasesCarriedOnUntilItIsFoundToDiffer(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	at := func(seconds float64) boottime.Instant { return boottime.Instant(seconds * float64(time.Second)) }
	after := func(seconds float64) time.Time { return noon.Add(time.Duration(seconds * float64(time.Second))) }
	var c clock
	c.saw(noon, at(100))
	require.Equal(t, noon, c.now(at(100)))
	require.Equal(t, after(10), c.now(at(110)))
	c.saw(after(10.9), at(110))
	require.Equal(t, after(20), c.now(at(120)), "an answer that took its time changes nothing")
	c.saw(after(3600), at(120))
	require.Equal(t, after(3601), c.now(at(121)), "set forward")
	c.saw(after(21), at(121))
	require.Equal(t, after(22), c.now(at(122)), "set back")
}

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
