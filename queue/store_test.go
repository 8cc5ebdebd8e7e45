package queue_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/queue"
)

// CASES 3
func TestServerThatTurnedReadOnlyIsLeft(t *testing.T) {
	t.Parallel()
	s := newStore(t, func(c *queue.Config) { c.MaxConnections = 2 })
	run := emit(t, s, request("readonly"))
	lease := claim(t, s, run)
	readOnly := func() {
		t.Helper()
		var held []*pgxpool.Conn
		for range 2 {
			conn, err := s.Pool().Acquire(t.Context())
			require.NoError(t, err)
			_, err = conn.Exec(t.Context(), `SET default_transaction_read_only = on`)
			require.NoError(t, err)
			held = append(held, conn)
		}
		for _, conn := range held {
			conn.Release()
		}
	}
	readOnly()
	require.NoError(t, lease.Stage(t.Context(), evidence.StageResolve), "a lease holder's write finds a server that takes it")
	readOnly()
	_, _, err := s.Emit(t.Context(), request("next"), queue.Emission{Pin: pins(request("next"))})
	require.ErrorContains(t, err, "25006")
	emit(t, s, request("next"))

	name := scalar[string](t, s, `SELECT current_database()`)
	sql(t, s, `ALTER DATABASE `+name+` SET default_transaction_read_only = on`)
	s.Pool().Reset()
	require.Error(t, s.Pool().Ping(t.Context()), "a read-only server is never taken")
}

// A37: a worker that is stopped inside a transaction cannot hold a row for longer than its lease.
func TestConnectionsHaveLimitsBelowTheTTL(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for _, setting := range []string{"statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"} {
		ms := scalar[int](t, s, `SELECT setting::int FROM pg_settings WHERE name = $1`, setting)
		require.Positive(t, ms, setting)
		require.Less(t, ms, int((6 * time.Second).Milliseconds()), setting)
	}
	run := emit(t, s, request("held"))
	stopped, err := s.Pool().Begin(t.Context())
	require.NoError(t, err)
	_, err = stopped.Exec(t.Context(), `SELECT FROM ops_run WHERE id = $1 FOR UPDATE`, run.ID)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, err := s.Claim(t.Context(), run.ID, claimant("w1"))
		return err == nil
	}, 10*time.Second, 50*time.Millisecond)
	require.Error(t, stopped.Commit(t.Context()))
}

func TestConfigThatCannotKeepALeaseIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]queue.Config{
		"no URL":      {},
		"short TTL":   {URL: "postgres://h/", TTL: time.Millisecond},
		"slow beat":   {URL: "postgres://h/", TTL: 10 * time.Second, Beat: 8 * time.Second},
		"wide margin": {URL: "postgres://h/", TTL: 10 * time.Second, Margin: 9 * time.Second},
		"brief fence": {URL: "postgres://h/", FenceRetention: time.Minute},
		"endpoint twice": {URL: "postgres://h/", Endpoints: []queue.Endpoint{
			{Name: "a", URL: "https://h/", KeyFile: "k"}, {Name: "a", URL: "https://h/", KeyFile: "k"},
		}},
	} {
		_, err := queue.Open(t.Context(), c)
		require.ErrorContains(t, err, "queue:", name)
	}
}

// CASES 3: a process that is at work while a migration or a restore changes a table goes on: what it has prepared is prepared anew.
func TestTablesThatChangeUnderAProcessAreNoErrorOfIt(t *testing.T) {
	t.Parallel()
	url := database(t)
	s := open(t, url)
	run := emit(t, s, request("before"))
	lease := claim(t, s, run)
	start(t, t.Context(), lease)
	sql(t, open(t, url), `ALTER TABLE ops_run ADD COLUMN added text; ALTER TABLE ops_run ALTER COLUMN queue TYPE varchar(200)`)
	_, err := s.Run(t.Context(), run.ID)
	require.NoError(t, err)
	require.NoError(t, lease.Check(t.Context()))
	sql(t, open(t, url), `ALTER TABLE ops_run ALTER COLUMN queue TYPE text`)
	emit(t, s, request("after"))
	require.NoError(t, lease.Close(t.Context(), failed(evidence.EffectNotDispatched, evidence.CodeSessionFailed)))
}
