package queue_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
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
	filter := queue.DeliveryFilter{Run: run}
	if run == "" {
		filter.State = queue.DeliveryPending
	}
	list, err := s.Deliveries(t.Context(), filter)
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
	require.Equal(t, queue.DeliveryDelivered, d.State)
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
	require.Equal(t, queue.DeliveryPending, state["required"].State)
	require.Equal(t, 10, state["required"].Attempts)
	require.Equal(t, "answered with status 302", state["required"].LastError)
	require.True(t, state["required"].NextAttemptAt.After(time.Now().Add(time.Minute)))
	require.Equal(t, queue.DeliveryAbandoned, state["besteffort"].State)
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
		{Name: "x", URL: "https://h/", KeyFile: "k", Records: []queue.Record{"log"}},
		{Name: "x", URL: "https://h/", KeyFile: "k", Records: []queue.Record{queue.RecordResult, queue.RecordResult}},
	} {
		_, err := queue.Open(t.Context(), queue.Config{URL: url, Endpoints: []queue.Endpoint{bad}})
		require.Error(t, err)
	}
}

// A50
func TestEveryRecordIsMadeWithTheCloseAndNamesItsRunAndTransaction(t *testing.T) {
	t.Parallel()
	to := newReceiver(t, http.StatusOK)
	s := newStore(t, func(c *queue.Config) {
		all := endpoint(t, "all", to.URL, true)
		all.Records = queue.Records()
		c.Endpoints = []queue.Endpoint{all}
	})
	run := emit(t, s, request("records"))
	complete(t, t.Context(), claim(t, s, run))
	require.Len(t, deliveries(t, s, run.ID), 3, "made by the close itself")
	deliverDue(t, s)
	got := map[queue.Record][]byte{}
	for i, q := range to.got {
		got[queue.Record(q.Header.Get(queue.HeaderRecord))] = to.bodies[i]
	}
	require.Len(t, got, 3)
	_, err := queue.DecodeResult(got[queue.RecordResult])
	require.NoError(t, err)

	var history queue.History
	require.NoError(t, json.Unmarshal(got[queue.RecordHistory], &history))
	require.Equal(t, run.ID, history.Run)
	require.Equal(t, "tx-"+run.ID, history.Transaction)
	require.Equal(t, evidence.StateCompleted, history.State)
	require.Len(t, history.Claims, 1)
	require.Equal(t, evidence.KindAdmitted, history.Decisions[0].Kind)
	facts, err := s.Facts(t.Context(), run.ID)
	require.NoError(t, err)
	require.Len(t, history.Facts, len(facts))
	for i, f := range facts {
		require.Equal(t, f.Digest, history.Facts[i].Digest)
	}

	var metrics queue.Metrics
	require.NoError(t, json.Unmarshal(got[queue.RecordMetrics], &metrics))
	require.Equal(t, run.ID, metrics.Run)
	require.Equal(t, "tx-"+run.ID, metrics.Transaction)
	require.Equal(t, 1, metrics.Claims)
	require.Equal(t, len(facts), metrics.Facts)
	require.GreaterOrEqual(t, metrics.WaitedMillis, int64(0))
	require.GreaterOrEqual(t, metrics.WorkedMillis, int64(0))
}

// A50
func TestReconcilingDeliversWhatWasNotDeliveredAndChangesNoRun(t *testing.T) {
	t.Parallel()
	url := database(t)
	to := newReceiver(t, http.StatusInternalServerError)
	told := endpoint(t, "told", to.URL, false)
	s := open(t, url, func(c *queue.Config) { c.Endpoints = []queue.Endpoint{told} })
	run := emit(t, s, request("reconcile"))
	complete(t, t.Context(), claim(t, s, run))
	for range 10 {
		due(t, s)
		deliverDue(t, s)
	}
	require.Equal(t, queue.DeliveryAbandoned, deliveries(t, s, run.ID)[0].State)
	jobs := `SELECT count(*)::int FROM river_job WHERE kind = $1`
	runs := scalar[int](t, s, jobs, "harness_run")
	before := scalar[string](t, s, `SELECT md5(ops_run::text) FROM ops_run`)
	sql(t, s, `DELETE FROM river_job WHERE kind = 'harness_deliver'`)

	// By now the endpoint is to be told everything, and takes it.
	to.answer(http.StatusOK)
	told.Records = queue.Records()
	s = open(t, url, func(c *queue.Config) { c.Endpoints = []queue.Endpoint{told} })
	done, err := s.ReconcileDeliveries(t.Context(), queue.DeliveryFilter{Run: run.ID})
	require.NoError(t, err)
	require.Equal(t, queue.Reconciled{Added: 2, Queued: 1}, done)
	require.Equal(t, 3, scalar[int](t, s, jobs, "harness_deliver"))
	deliverDue(t, s)
	for _, d := range deliveries(t, s, run.ID) {
		require.Equal(t, queue.DeliveryDelivered, d.State, d.Record)
	}
	done, err = s.ReconcileDeliveries(t.Context(), queue.DeliveryFilter{Run: run.ID})
	require.NoError(t, err)
	require.Zero(t, done, "nothing is told twice")
	require.Equal(t, before, scalar[string](t, s, `SELECT md5(ops_run::text) FROM ops_run`))
	require.Equal(t, runs, scalar[int](t, s, jobs, "harness_run"))

	waits := emit(t, s, request("reconcile-waits"))
	done, err = s.ReconcileDeliveries(t.Context(), queue.DeliveryFilter{Run: waits.ID})
	require.NoError(t, err)
	require.Zero(t, done, "a run that is not over has nothing to tell")
	_, err = s.ReconcileDeliveries(t.Context(), queue.DeliveryFilter{Run: "nowhere"})
	require.ErrorIs(t, err, queue.ErrNotFound)
}
