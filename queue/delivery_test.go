package queue_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/queue"
)

const webhookKey = "canary-webhook-key-0123456789"

// receiver is an endpoint that answers with a status and keeps what it was sent.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	status int
	got    []*http.Request
	bodies [][]byte
}

func newReceiver(t *testing.T, status int) *receiver {
	r := &receiver{status: status}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		r.mu.Lock()
		defer r.mu.Unlock()
		if err != nil {
			r.status = http.StatusBadRequest
		}
		r.got, r.bodies = append(r.got, q), append(r.bodies, body)
		w.Header().Set("Location", "http://127.0.0.1:1/elsewhere")
		w.WriteHeader(r.status)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) answer(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.got)
}

func endpoint(t *testing.T, name, url string, required bool) queue.Endpoint {
	t.Helper()
	key := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(key, []byte(webhookKey+"\n"), 0o600))
	return queue.Endpoint{Name: name, URL: url, KeyFile: key, Required: required}
}

// deliverDue makes every attempt that is due, as the workers would.
func deliverDue(t *testing.T, s *queue.Store) {
	t.Helper()
	for _, d := range deliveries(t, s, "") {
		if err := s.Deliver(t.Context(), d.ID); err != nil {
			require.Equal(t, evidence.CodeDeliveryFailed, evidence.CodeOf(err), "%v", err)
			require.NotContains(t, err.Error(), "127.0.0.1:1/elsewhere")
		}
	}
}

func deliveries(t *testing.T, s *queue.Store, run string) []queue.Delivery {
	t.Helper()
	list, err := s.Deliveries(t.Context(), run)
	require.NoError(t, err)
	return list
}

func due(t *testing.T, s *queue.Store) {
	t.Helper()
	sql(t, s, `UPDATE delivery SET next_attempt_at = clock_timestamp() - interval '1 millisecond' WHERE state = 'pending'`)
}

// A42, A48
func TestResultIsDeliveredSignedAndOnce(t *testing.T) {
	t.Parallel()
	to := newReceiver(t, http.StatusNoContent)
	s := newStore(t, func(c *queue.Config) { c.Endpoints = []queue.Endpoint{endpoint(t, "ops", to.URL, true)} })
	run := emit(t, s, request("deliver"))
	require.Empty(t, deliveries(t, s, run.ID))
	complete(t, t.Context(), claim(t, s, run))
	require.Equal(t, 1, scalar[int](t, s, `SELECT count(*)::int FROM river_job WHERE kind = 'harness_deliver'`))
	id := deliveries(t, s, run.ID)[0].ID
	deliverDue(t, s)
	require.NoError(t, s.Deliver(t.Context(), id), "a second attempt at what is delivered")
	require.Equal(t, 1, to.count())
	q, body := to.got[0], to.bodies[0]
	require.Equal(t, id, q.Header.Get(queue.HeaderDelivery))
	mac := hmac.New(sha256.New, []byte(webhookKey))
	mac.Write([]byte(q.Header.Get(queue.HeaderTimestamp) + "." + string(body)))
	require.Equal(t, "v1="+hex.EncodeToString(mac.Sum(nil)), q.Header.Get(queue.HeaderSignature))
	result, err := queue.DecodeResult(body)
	require.NoError(t, err)
	require.Equal(t, run.ID, result.Run)
	require.Equal(t, evidence.StateCompleted, result.State)
	d := deliveries(t, s, run.ID)[0]
	require.Equal(t, "delivered", d.State)
	require.NotNil(t, d.FinishedAt)
}

// A45, A48, A50
func TestRequiredDeliveryIsRetriedUntilItSucceedsAndBestEffortIsGivenUp(t *testing.T) {
	t.Parallel()
	to := newReceiver(t, http.StatusFound) // no redirect is followed
	s := newStore(t, func(c *queue.Config) {
		c.Endpoints = []queue.Endpoint{endpoint(t, "required", to.URL, true), endpoint(t, "besteffort", to.URL, false)}
	})
	run := emit(t, s, request("retry"))
	complete(t, t.Context(), claim(t, s, run))
	for range 10 {
		due(t, s)
		deliverDue(t, s)
	}
	state := map[string]queue.Delivery{}
	for _, d := range deliveries(t, s, run.ID) {
		state[d.Endpoint] = d
	}
	require.Equal(t, "pending", state["required"].State)
	require.Equal(t, 10, state["required"].Attempts)
	require.Equal(t, "answered with status 302", state["required"].LastError)
	require.True(t, state["required"].NextAttemptAt.After(time.Now().Add(time.Minute)))
	require.Equal(t, "abandoned", state["besteffort"].State)
	require.Len(t, deliveries(t, s, ""), 1, "the stuck one is visible")

	sql(t, s, `DELETE FROM river_job`)
	require.Zero(t, tick(t, s).Deliveries, "not due")
	due(t, s)
	require.Equal(t, 1, tick(t, s).Deliveries)
	to.answer(http.StatusOK)
	deliverDue(t, s)
	require.Empty(t, deliveries(t, s, ""))
}

func TestDeliveryNobodyCanMakeStaysPendingAndSaysWhy(t *testing.T) {
	t.Parallel()
	url := database(t)
	s := open(t, url, func(c *queue.Config) {
		weak := endpoint(t, "weak", "http://127.0.0.1:1/secret-path", true)
		require.NoError(t, os.WriteFile(weak.KeyFile, []byte("short"), 0o600))
		c.Endpoints = []queue.Endpoint{endpoint(t, "down", "http://127.0.0.1:1/secret-path", true), weak}
	})
	complete(t, t.Context(), claim(t, s, emit(t, s, request("down"))))
	deliverDue(t, s)
	for _, d := range deliveries(t, s, "") {
		require.NotEmpty(t, d.LastError)
		require.NotContains(t, d.LastError, "secret-path")
	}
	other := open(t, url)
	due(t, s)
	deliverDue(t, other)
	for _, d := range deliveries(t, s, "") {
		require.Contains(t, d.LastError, "no such endpoint")
	}
	for _, bad := range []queue.Endpoint{
		{Name: "x", URL: "ftp://h/", KeyFile: "k"},
		{Name: "x", URL: "https://u:p@h/", KeyFile: "k"},
		{Name: "", URL: "https://h/", KeyFile: "k"},
		{Name: "x", URL: "https://h/"},
	} {
		_, err := queue.Open(t.Context(), queue.Config{URL: url, Endpoints: []queue.Endpoint{bad}})
		require.Error(t, err)
	}
}
