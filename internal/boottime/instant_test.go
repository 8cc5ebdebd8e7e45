package boottime

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTimeGoesOn(t *testing.T) {
	t.Parallel()
	began, monotonic := Now(), time.Now()
	time.Sleep(20 * time.Millisecond)
	atLeast := time.Since(monotonic)
	passed := Since(began)
	require.GreaterOrEqual(t, passed, atLeast)
	require.Less(t, passed, time.Minute)
	require.Equal(t, 3*time.Second, Instant(5*time.Second).Sub(Instant(2*time.Second)))
}
