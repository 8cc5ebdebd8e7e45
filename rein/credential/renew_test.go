package credential

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRenewalIsAtHalfOfWhatIsLeftAndSlowsDownAfterFailures(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	alive := func(left time.Duration) ownToken { return ownToken{ttl: time.Hour, expires: now.Add(left)} }
	for _, c := range []struct {
		own      ownToken
		failures int
		want     time.Duration
	}{
		{alive(time.Hour), 0, 30 * time.Minute},
		{alive(10 * time.Second), 0, 5 * time.Second},
		{alive(time.Second), 0, time.Second},
		{alive(-time.Minute), 0, time.Second},
		{ownToken{}, 0, 5 * time.Minute},
		{alive(time.Hour), 1, time.Second},
		{alive(time.Hour), 3, 4 * time.Second},
		{alive(time.Hour), 6, 30 * time.Second},
		{alive(time.Hour), 1 << 40, 30 * time.Second},
	} {
		require.Equal(t, c.want, renewalWait(c.own, now, c.failures))
	}
}
