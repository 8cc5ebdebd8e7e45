package queue_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
)

// legal is the table of transitions as the design means it: one row per state, in the order of evidence.States.
var legal = map[evidence.State]string{
	//                               cr ru wa we su cq co fa ca ex
	evidence.StateCreated:         " .  x  .  x  x  x  .  x  .  x",
	evidence.StateRunning:         " x  .  x  x  .  x  x  x  .  x",
	evidence.StateWaitingApproval: " .  x  .  x  .  x  .  x  .  x",
	evidence.StateWaitingExternal: " .  .  .  .  .  .  x  x  x  .",
	evidence.StateSuspended:       " x  .  .  x  .  x  .  x  .  x",
	evidence.StateCancelRequested: " .  .  .  x  .  .  x  x  x  .",
	evidence.StateCompleted:       " .  .  .  .  .  .  .  .  .  .",
	evidence.StateFailed:          " .  .  .  .  .  .  .  .  .  .",
	evidence.StateCancelled:       " .  .  .  .  .  .  .  .  .  .",
	evidence.StateExpired:         " .  .  .  .  .  .  .  .  .  .",
}

// A43
func TestEveryTransitionIsLegalOrRefused(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	run := emit(t, s, request("states"))
	states := evidence.States()
	require.Len(t, states, 10)
	conn, err := s.Pool().Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	for _, from := range states {
		row := strings.Fields(legal[from])
		require.Len(t, row, 10, from)
		for i, to := range states {
			if from == to {
				continue
			}
			name := fmt.Sprintf("%s to %s", from, to)
			tx, err := conn.Begin(t.Context())
			require.NoError(t, err)
			// Without triggers, any state can be the one to begin with.
			_, err = tx.Exec(t.Context(), `SET LOCAL session_replication_role = replica`)
			require.NoError(t, err)
			_, err = tx.Exec(t.Context(), `UPDATE ops_run SET state = $2, `+ending(from)+` WHERE id = $1`, run.ID, from)
			require.NoError(t, err, name)
			_, err = tx.Exec(t.Context(), `SET LOCAL session_replication_role = origin`)
			require.NoError(t, err)
			_, err = tx.Exec(t.Context(), `UPDATE ops_run SET state = $2, `+ending(to)+` WHERE id = $1`, run.ID, to)
			if row[i] == "x" {
				require.NoError(t, err, name)
			} else {
				require.ErrorContains(t, err, "HN001", name)
			}
			require.NoError(t, tx.Rollback(t.Context()))
		}
	}
}

// ending makes a row with a state satisfy the table's constraints.
func ending(state evidence.State) string {
	if state.Final() {
		return `finished_at = now(), result = 'r', statement = 's', next_check_at = NULL`
	}
	return `finished_at = NULL, result = NULL, statement = NULL, next_check_at = now()`
}

// A2, A3, A17
func TestRunRowRefusesWhatNobodyMayChange(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	run := emit(t, s, request("row"))
	lease := claim(t, s, run)
	start(t, t.Context(), lease)
	intend(t, t.Context(), lease)
	for name, c := range map[string]struct{ statement, code string }{
		"contract":           {`UPDATE ops_run SET contract = 'x'`, "HN003"},
		"profile":            {`UPDATE ops_run SET profile_digest = 'x'`, "HN003"},
		"repository":         {`UPDATE ops_run SET repository = 'x'`, "HN003"},
		"target ref":         {`UPDATE ops_run SET target_ref = 'x'`, "HN003"},
		"baseline":           {`UPDATE ops_run SET baseline = 'x'`, "HN003"},
		"superseded run":     {`UPDATE ops_run SET supersedes = id`, "HN003"},
		"lower epoch":        {`UPDATE ops_run SET lease_epoch = 0`, "HN002"},
		"start taken back":   {`UPDATE ops_run SET started_at = NULL`, "HN003"},
		"deletion":           {`DELETE FROM ops_run`, "HN004"},
		"changed fact":       {`UPDATE run_fact SET digest = 'x'`, "HN004"},
		"deleted fact":       {`DELETE FROM run_fact`, "HN004"},
		"changed intent":     {`UPDATE run_intent SET commit_hash = 'x'`, "HN004"},
		"expired once begun": {`UPDATE ops_run SET state = 'expired', finished_at = now(), result = 'r', statement = 's'`, "23514"},
		"unsettled end": {
			`UPDATE ops_run SET state = 'failed', effect = 'unknown', finished_at = now(), result = 'r', statement = 's'`, "23514",
		},
		"end without evidence": {`UPDATE ops_run SET state = 'failed', finished_at = now()`, "23514"},
	} {
		_, err := s.Pool().Exec(t.Context(), c.statement)
		require.ErrorContains(t, err, c.code, name)
	}
	published(t, lease)
	require.NoError(t, lease.Close(t.Context(), completed()))
	_, err := s.Pool().Exec(t.Context(), `UPDATE ops_run SET stage = 'emit'`)
	require.ErrorContains(t, err, "HN001", "a final row")
}

func TestEveryIndexedQueryHasItsIndex(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	for query, index := range map[string]string{
		`SELECT FROM ops_run WHERE trigger_key = 'x'`:                                                                 "ops_run_trigger_key_key",
		`SELECT FROM ops_run WHERE state NOT IN ('completed', 'failed', 'cancelled', 'expired') ORDER BY state`:       "ops_run_open",
		`SELECT FROM ops_run WHERE repository = 'x' AND target_ref = 'y' AND state = 'created' ORDER BY created_at`:   "ops_run_open_ref",
		`SELECT FROM ops_run ORDER BY created_at DESC, id DESC LIMIT 50`:                                              "ops_run_created",
		`SELECT FROM run_fact WHERE run_id = 'x' ORDER BY seq`:                                                        "run_fact_pkey",
		`SELECT FROM run_token WHERE revoked_at IS NULL ORDER BY expires_at LIMIT 10`:                                 "run_token_live",
		`SELECT FROM run_fence WHERE deleted_at IS NULL AND due_at <= now() ORDER BY due_at LIMIT 10`:                 "run_fence_due",
		`SELECT FROM delivery WHERE state = 'pending' AND next_attempt_at <= now() ORDER BY next_attempt_at LIMIT 10`: "delivery_pending",
		`SELECT FROM session_log WHERE run_id = 'x' AND (epoch, seq) > (1, 1) ORDER BY epoch, seq`:                    "session_log_pkey",
		`SELECT FROM ref_lock WHERE run_id = 'x'`:                                                                     "ref_lock_run_id_key",
	} {
		tx, err := s.Pool().Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), `SET LOCAL enable_seqscan = off`)
		require.NoError(t, err)
		rows, err := tx.Query(t.Context(), `EXPLAIN `+query)
		require.NoError(t, err)
		plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		require.True(t, slices.ContainsFunc(plan, func(l string) bool { return strings.Contains(l, index) }), "%s\n%s", query, strings.Join(plan, "\n"))
		require.NoError(t, tx.Rollback(t.Context()))
	}
}
