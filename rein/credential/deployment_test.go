package credential_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/rein/credential"
	"github.com/rein-aharness/harness/tests/stack"
)

// A7, A30, A31: with the policies that a deployment is told to use, every kind of route works, the worker reads nothing itself,
// and it may sweep.
func TestTheWorkerPolicyIsEnoughForEveryRouteAndForNothingElse(t *testing.T) {
	t.Parallel()
	s := stack.Load(t)
	client, err := credential.Open(t.Context(), credential.Config{
		Address: s.Vault.Address, TokenRole: s.Vault.TokenRole,
		AppRole: &credential.AppRole{RoleIDFile: s.Vault.RoleIDFile, SecretIDFile: s.Vault.SecretIDFile},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close(context.Background())) })

	require.NoError(t, client.CheckRoute(t.Context(), "worker-1", credential.Route{
		Revision: "demo@1.0.0", Path: "secret/data/harness/session/demo", Policy: "harness-session-demo", Field: "token",
		Inject: file("demo"), TTLSeconds: 60,
	}))
	for _, route := range []credential.PublishRoute{
		{
			Revision: "git-http@1.0.0", Kind: credential.PublishBasic, Path: "secret/data/harness/publish/http", Policy: "harness-publish",
			UsernameField: "username", PasswordField: "password", TTLSeconds: 60,
		},
		{
			Revision: "git-ssh@1.0.0", Kind: credential.PublishSSHKey, Path: "secret/data/harness/publish/ssh", Policy: "harness-publish-ssh",
			KeyField: "private_key", User: "git", TTLSeconds: 60,
		},
		{
			Revision: "git-certificate@1.0.0", Kind: credential.PublishSSHCertificate, Path: "ssh/sign/publish",
			Policy: "harness-publish-sshcert", User: "git", TTLSeconds: 60,
		},
	} {
		require.NoError(t, client.CheckPublishRoute(t.Context(), "worker-1", route))
	}
	require.NoError(t, client.CheckSigningRoute(t.Context(), "worker-1", credential.SigningRoute{
		Revision: "signing@1.0.0", Path: "secret/data/harness/signing", Policy: "harness-signing", Field: "private_key", TTLSeconds: 60,
	}))

	session := begin(t, client, &ledger{}, "harness-session-demo")
	revoked, err := client.Sweep(t.Context(), time.Now().Add(time.Minute), func(_ context.Context, found credential.Found) (bool, error) {
		return found.Accessor != session.Accessor(), nil // others are other tests'
	})
	require.NoError(t, err)
	require.Equal(t, 1, revoked)
}
