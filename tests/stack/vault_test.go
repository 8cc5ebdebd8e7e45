package stack_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/vault/api"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/rein-aharness/harness/tests/stack"
)

// worker logs in as a worker does.
func worker(t *testing.T, s *stack.Stack) *api.Client {
	t.Helper()
	client := s.VaultRoot(t)
	client.ClearToken()
	login, err := client.Logical().WriteWithContext(t.Context(), "auth/approle/login", map[string]any{
		"role_id": s.Secret(t, s.Vault.RoleIDFile), "secret_id": s.Secret(t, s.Vault.SecretIDFile),
	})
	require.NoError(t, err)
	client.SetToken(login.Auth.ClientToken)
	return client
}

// session makes a child token on the token role; it ends by itself.
func session(t *testing.T, worker *api.Client, role string, metadata map[string]string, policy string) (*api.SecretAuth, error) {
	t.Helper()
	request := &api.TokenCreateRequest{Policies: []string{policy}, TTL: "1m", ExplicitMaxTTL: "1m", NoDefaultPolicy: true, Metadata: metadata}
	token, err := worker.Auth().Token().CreateWithRoleWithContext(t.Context(), request, role)
	if err != nil {
		return nil, err
	}
	return token.Auth, nil
}

// A28, A31
func TestWorkerTokenReadsNoSecret(t *testing.T) {
	t.Parallel()
	s := stack.Load(t)
	client := worker(t, s)
	for _, path := range []string{
		"secret/data/harness/publish/http", "secret/data/harness/publish/ssh", "secret/data/harness/signing",
		"secret/data/harness/session/demo", "secret/metadata/harness/signing", "ssh/config/ca",
		"auth/approle/role/harness-worker/role-id", "sys/policies/acl/harness-worker",
	} {
		_, err := client.Logical().ReadWithContext(t.Context(), path)
		require.ErrorContains(t, err, "permission denied", path)
	}
	for _, path := range []string{"ssh/sign/publish", "auth/token/create", "auth/token/create-orphan", "auth/token/roles/harness-session"} {
		_, err := client.Logical().WriteWithContext(t.Context(), path, map[string]any{})
		require.ErrorContains(t, err, "permission denied", path)
	}
}

func TestTokenRoleGivesOnlyPoliciesOfSessions(t *testing.T) {
	t.Parallel()
	s := stack.Load(t)
	client := worker(t, s)
	for _, policy := range []string{"root", "default", "harness-worker", "other"} {
		_, err := session(t, client, s.Vault.TokenRole, nil, policy)
		require.Error(t, err, policy)
	}
	token, err := session(t, client, s.Vault.TokenRole, nil, "harness-session-demo")
	require.NoError(t, err)
	require.Equal(t, []string{"harness-session-demo"}, token.Policies)
	require.False(t, token.Renewable)
	require.True(t, token.Orphan)

	child := s.VaultRoot(t)
	child.SetToken(token.ClientToken)
	secret, err := child.KVv2("secret").Get(t.Context(), "harness/session/demo")
	require.NoError(t, err)
	require.NotEmpty(t, secret.Data["token"])
	_, err = child.KVv2("secret").Get(t.Context(), "harness/signing")
	require.ErrorContains(t, err, "permission denied")
}

func TestTokenRoleBoundsTheLifetime(t *testing.T) {
	t.Parallel()
	s := stack.Load(t)
	token, err := worker(t, s).Auth().Token().CreateWithRoleWithContext(t.Context(),
		&api.TokenCreateRequest{Policies: []string{"harness-publish"}, TTL: "20h"}, s.Vault.TokenRole)
	require.NoError(t, err)
	require.LessOrEqual(t, token.Auth.LeaseDuration, int(time.Hour/time.Second))
	require.NoError(t, s.VaultRoot(t).Auth().Token().RevokeAccessor(token.Auth.Accessor))
}

// A30
func TestSessionTokenOutlivesItsWorkerUntilRevokedByAccessor(t *testing.T) {
	t.Parallel()
	s := stack.Load(t)
	first, second := worker(t, s), worker(t, s)
	run := rand.Text()
	token, err := session(t, first, s.Vault.TokenRole, map[string]string{"run": run}, "harness-publish")
	require.NoError(t, err)
	require.NoError(t, first.Auth().Token().RevokeSelf(""))
	require.Equal(t, []string{token.Accessor}, s.LiveTokens(t, "run", run))
	require.NoError(t, second.Auth().Token().RevokeAccessor(token.Accessor))
	require.Empty(t, s.LiveTokens(t, "run", run))
}

func TestWorkerListsAccessorsForTheSweep(t *testing.T) {
	t.Parallel()
	s := stack.Load(t)
	list, err := worker(t, s).Logical().ListWithContext(t.Context(), "auth/token/accessors")
	require.NoError(t, err)
	require.NotEmpty(t, list.Data["keys"])
}

func TestWrappedSecretIDUnwrapsOnce(t *testing.T) {
	t.Parallel()
	s := stack.Load(t)
	wrapped := s.Secret(t, s.WrappedSecretID(t))
	client := s.VaultRoot(t)
	client.SetToken(wrapped)
	secret, err := client.Logical().UnwrapWithContext(t.Context(), "")
	require.NoError(t, err)
	require.NotEmpty(t, secret.Data["secret_id"])
	_, err = client.Logical().UnwrapWithContext(t.Context(), "")
	require.Error(t, err)
}

func TestCredentialOfATestIsReadByItsPolicyAlone(t *testing.T) {
	t.Parallel()
	s := stack.Load(t)
	path, policy := s.Credential(t, map[string]string{"token": "one"})
	client := worker(t, s)
	for granted, want := range map[string]bool{policy: true, "harness-publish": false} {
		token, err := session(t, client, s.Vault.TokenRole, nil, granted)
		require.NoError(t, err)
		child := s.VaultRoot(t)
		child.SetToken(token.ClientToken)
		_, err = child.Logical().ReadWithContext(t.Context(), path)
		require.Equal(t, want, err == nil, granted)
	}
}

func TestSSHServerAcceptsCertificatesOfVaultForGitAlone(t *testing.T) {
	t.Parallel()
	s := stack.Load(t)
	token, err := session(t, worker(t, s), s.Vault.TokenRole, nil, "harness-publish-sshcert")
	require.NoError(t, err)
	child := s.VaultRoot(t)
	child.SetToken(token.ClientToken)

	public, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	block, err := ssh.MarshalPrivateKey(private, "")
	require.NoError(t, err)
	sshPublic, err := ssh.NewPublicKey(public)
	require.NoError(t, err)
	key := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(block), 0o600))

	_, err = child.Logical().WriteWithContext(t.Context(), "ssh/sign/publish",
		map[string]any{"public_key": string(ssh.MarshalAuthorizedKey(sshPublic)), "valid_principals": "root"})
	require.Error(t, err)
	signed, err := child.Logical().WriteWithContext(t.Context(), "ssh/sign/publish",
		map[string]any{"public_key": string(ssh.MarshalAuthorizedKey(sshPublic)), "valid_principals": "git", "ttl": "60s"})
	require.NoError(t, err)

	repo := s.Repository(t, "certificate", map[string]string{"a": "1"})
	command := "GIT_SSH_COMMAND=ssh -F none -o BatchMode=yes -o IdentitiesOnly=yes -o StrictHostKeyChecking=yes -o UserKnownHostsFile=" +
		s.Git.KnownHostsFile + " -i " + key
	require.Error(t, client(t, []string{command}, "ls-remote", repo.SSHURL))
	require.NoError(t, os.WriteFile(key+"-cert.pub", []byte(signed.Data["signed_key"].(string)), 0o600))
	require.NoError(t, client(t, []string{command}, "ls-remote", repo.SSHURL))
}
