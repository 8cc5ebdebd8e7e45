package queue_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
)

// A44, CASES 4: a worker whose connection for notifications is half open hears of nothing and works all the same, since it also
// looks; and it still ends when it is told to.
func TestWorkerThatHearsNoNotificationWorksAllTheSame(t *testing.T) {
	t.Parallel()
	direct := database(t)
	emitter := open(t, direct)
	wire, url := throughRelay(t, direct)
	stop := serve(t, open(t, url), handler{execute: executes, reconcile: settles})
	await(t, emitter, emit(t, emitter, request("heard")).ID, evidence.StateCompleted)
	require.Eventually(t, wire.deafen, 10*time.Second, 20*time.Millisecond)
	for _, key := range []string{"unheard", "unheard-too"} {
		await(t, emitter, emit(t, emitter, request(key)).ID, evidence.StateCompleted)
	}
	began := time.Now()
	stop()
	require.Less(t, time.Since(began), 20*time.Second)
}
