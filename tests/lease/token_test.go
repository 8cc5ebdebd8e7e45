package lease_test

import (
	"testing"

	"github.com/hashicorp/vault/api"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/tests/deployment"
)

// A30: a token that was created and never recorded is found by what Vault says of it and revoked, once its lease is over; one of a run
// that this deployment does not know is left alone.
func TestATokenThatNoLedgerKnowsIsRevokedOnceItsLeaseIsOver(t *testing.T) {
	t.Parallel()
	s := set(t, change())
	run := s.emit(t, "lost token")
	s.Worker(t, "only", deployment.WorkerSettings{})
	s.settled(t, s.final(t, run.ID, within), evidence.StateCompleted, evidence.EffectConfirmed)

	vault := s.Stack.VaultRoot(t)
	create := func(run string) {
		token, err := vault.Auth().Token().CreateWithRoleWithContext(t.Context(), &api.TokenCreateRequest{
			Policies: []string{"harness-signing"}, NoDefaultPolicy: true, TTL: "10m", Type: "service",
			Metadata: map[string]string{"harness_run": run, "harness_epoch": "1", "harness_owner": "gone/1", "harness_purpose": "signing"},
		}, s.Stack.Vault.TokenRole)
		require.NoError(t, err)
		t.Cleanup(func() { _ = vault.Auth().Token().RevokeAccessor(token.Auth.Accessor) })
	}
	const foreign = "00000000-0000-7000-8000-000000000000"
	create(run.ID)
	create(foreign)
	url, err := s.Config.Database.URL()
	require.NoError(t, err)
	db, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer db.Close(t.Context())
	eventually(t, within, func() bool {
		_, err := db.Exec(t.Context(), `UPDATE chore SET next_at = clock_timestamp() WHERE name = 'lost_tokens'`)
		require.NoError(t, err)
		return len(s.Stack.LiveTokens(t, "harness_run", run.ID)) == 0
	})
	require.Len(t, s.Stack.LiveTokens(t, "harness_run", foreign), 1)
}
