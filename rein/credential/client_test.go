package credential_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/vault/api"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/rein/credential"
	"github.com/rein-aharness/harness/repotx"
)

func read(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	return data
}

func write(t testing.TB, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(name, []byte(text+"\n"), 0o600))
	return name
}

// appRole makes an AppRole of the test's own and returns the files of its role id and secret id.
func (v *vault) appRole(wrap bool) *credential.AppRole {
	v.t.Helper()
	name := "auth/approle/role/" + v.role
	_, err := v.root.Logical().Write(name, map[string]any{
		"token_policies": v.workers, "token_no_default_policy": true, "token_ttl": "5m", "token_max_ttl": "10m",
	})
	require.NoError(v.t, err)
	v.t.Cleanup(func() { _, _ = v.root.Logical().Delete(name) })
	id, err := v.root.Logical().Read(name + "/role-id")
	require.NoError(v.t, err)
	root := v.root
	if wrap {
		root, err = v.root.Clone()
		require.NoError(v.t, err)
		root.SetToken(v.root.Token())
		root.SetWrappingLookupFunc(func(string, string) string { return "60s" })
	}
	secret, err := root.Logical().Write(name+"/secret-id", nil)
	require.NoError(v.t, err)
	role := &credential.AppRole{RoleIDFile: write(v.t, id.Data["role_id"].(string)), Wrapped: wrap}
	if wrap {
		role.SecretIDFile = write(v.t, secret.WrapInfo.Token)
	} else {
		role.SecretIDFile = write(v.t, secret.Data["secret_id"].(string))
	}
	return role
}

// A16, B3
func TestAWorkerLogsInByAppRoleAndGivesItsTokenUpAtTheEnd(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	client, err := credential.Open(t.Context(), credential.Config{Address: v.address, TokenRole: v.role, AppRole: v.appRole(false)})
	require.NoError(t, err)
	route := v.route("demo", canary, file("demo"))
	require.NoError(t, client.CheckRoute(t.Context(), "worker-1", route))
	require.NoError(t, client.Health(time.Now()))
	require.Error(t, client.Health(time.Now().Add(6*time.Minute)), "the token has expired by then")
	require.NoError(t, client.Close(t.Context()))
	require.Error(t, client.CheckRoute(t.Context(), "worker-1", route))
}

// B3
func TestAWrappedSecretIDIsUnwrappedOnceAndOnlyWhenTheMountMadeIt(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	config := credential.Config{Address: v.address, TokenRole: v.role, AppRole: v.appRole(true)}
	v.open(config)
	_, err := credential.Open(t.Context(), config)
	require.Error(t, err, "someone else has used it")

	forger, err := v.root.Clone()
	require.NoError(t, err)
	forger.SetToken(v.root.Token())
	forger.SetWrappingLookupFunc(func(string, string) string { return "60s" })
	plain := string(read(t, v.appRole(false).SecretIDFile))
	forged, err := forger.Logical().Write("sys/wrapping/wrap", map[string]any{"secret_id": strings.TrimSpace(plain)})
	require.NoError(t, err)
	config.AppRole.SecretIDFile = write(t, forged.WrapInfo.Token)
	_, err = credential.Open(t.Context(), config)
	require.ErrorContains(t, err, "was not made by the AppRole mount")
}

// B3, B4
func TestOpenRefusesWhatIsNotAWorkersLogin(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	good := v.config()
	exposed := write(t, strings.TrimSpace(string(read(t, good.TokenFile))))
	require.NoError(t, os.Chmod(exposed, 0o604))
	for name, change := range map[string]func(*credential.Config){
		"root token":      func(c *credential.Config) { c.TokenFile = write(t, v.root.Token()) },
		"unknown token":   func(c *credential.Config) { c.TokenFile = write(t, "hvs.unknown") },
		"two words":       func(c *credential.Config) { c.TokenFile = write(t, "a b") },
		"empty file":      func(c *credential.Config) { c.TokenFile = write(t, "") },
		"missing file":    func(c *credential.Config) { c.TokenFile = "/nowhere/token" },
		"open to others":  func(c *credential.Config) { c.TokenFile = exposed },
		"no login":        func(c *credential.Config) { c.TokenFile = "" },
		"two logins":      func(c *credential.Config) { c.AppRole = v.appRole(false) },
		"clear text":      func(c *credential.Config) { c.Address = "http://vault.example.org:8200" },
		"user in the URL": func(c *credential.Config) { c.Address = strings.Replace(v.address, "http://", "http://a:b@", 1) },
		"no address":      func(c *credential.Config) { c.Address = "" },
		"no token role":   func(c *credential.Config) { c.TokenRole = "" },
		"no such CA":      func(c *credential.Config) { c.CAFile = "/nowhere/ca.pem" },
		"empty CA":        func(c *credential.Config) { c.CAFile = write(t, "nothing") },
		"nobody there":    func(c *credential.Config) { c.Address = "http://127.0.0.1:1" },
		"no timeout":      func(c *credential.Config) { c.TimeoutSeconds = -1 },
	} {
		config := good
		change(&config)
		_, err := credential.Open(t.Context(), config)
		require.Error(t, err, name)
		require.NotContains(t, err.Error(), v.root.Token(), name)
	}
}

// The process's environment decides nothing. It cannot run beside others.
func TestTheEnvironmentHasNoSayInVault(t *testing.T) {
	v := newVault(t)
	config := v.config()
	route := v.route("demo", canary, file("demo"))
	t.Setenv("VAULT_TOKEN", v.root.Token())
	t.Setenv("VAULT_NAMESPACE", "elsewhere")
	t.Setenv("VAULT_ADDR", "http://127.0.0.1:1")
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	require.NoError(t, v.open(config).CheckRoute(t.Context(), "worker-1", route))
}

// A7, A31: each broken link of a route is named.
func TestACheckOfARouteNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	client := v.open(v.config())
	route := v.route("demo", canary, file("demo"))
	require.NoError(t, client.CheckRoute(t.Context(), "worker-1", route))

	missing := route
	missing.Field = "nothing"
	require.ErrorContains(t, client.CheckRoute(t.Context(), "worker-1", missing), "nothing")
	policy := route
	policy.Policy = v.name("none")
	require.Error(t, client.CheckRoute(t.Context(), "worker-1", policy))

	v.workers = append(v.workers, route.Policy)
	require.ErrorContains(t, v.open(v.config()).CheckRoute(t.Context(), "worker-1", route), "own token can read")
}

// A30: what a crash left is found by its metadata.
func TestASweepEndsWhatNobodyNeedsAndNothingElse(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	route := v.route("demo", canary, file("demo"))
	client := v.open(v.config())
	_, err := client.Sweep(t.Context(), time.Now().Add(time.Hour), nil)
	require.ErrorIs(t, err, credential.ErrSweepNotAllowed)

	v.policy("sweep", `path "auth/token/accessors" { capabilities = ["list", "sudo"] }
path "auth/token/accessors/" { capabilities = ["list", "sudo"] }`)
	v.workers = append(v.workers, v.name("sweep"))
	client = v.open(v.config())
	orphaned := begin(t, client, &ledger{}, route.Policy)
	needed := begin(t, client, &ledger{}, route.Policy)
	foreign, err := v.root.Auth().Token().CreateWithRole(&api.TokenCreateRequest{Policies: []string{route.Policy}, TTL: "5m"}, v.role)
	require.NoError(t, err)
	t.Cleanup(func() { _ = v.root.Auth().Token().RevokeAccessor(foreign.Auth.Accessor) })

	keep := func(_ context.Context, found credential.Found) (bool, error) {
		require.Equal(t, "run-1", found.Run)
		require.Equal(t, "3", found.Epoch)
		require.Equal(t, credential.PurposeSession, found.Purpose)
		return found.Accessor == needed.Accessor(), nil
	}
	revoked, err := client.Sweep(t.Context(), time.Now().Add(-time.Hour), keep)
	require.NoError(t, err)
	require.Zero(t, revoked, "younger than the given time")
	broken := errors.New("database down")
	revoked, err = client.Sweep(t.Context(), time.Now().Add(time.Minute), func(context.Context, credential.Found) (bool, error) { return false, broken })
	require.ErrorIs(t, err, broken)
	require.Zero(t, revoked, "who cannot be asked keeps his token")
	revoked, err = client.Sweep(t.Context(), time.Now().Add(time.Minute), keep)
	require.NoError(t, err)
	require.Equal(t, 1, revoked)
	require.False(t, v.alive(orphaned.Accessor()))
	require.True(t, v.alive(needed.Accessor()))
	require.True(t, v.alive(foreign.Auth.Accessor), "a token of no run")
}

// A30: the publish credential in its three forms, each on a token of its own.
func TestAPublishCredentialComesAsBasicKeyOrCertificate(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	client := v.open(v.config())
	_, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	block, err := ssh.MarshalPrivateKey(private, "")
	require.NoError(t, err)
	path, policy := v.secret("git", map[string]any{
		"username": "git-user", "password": canary, "key": string(pem.EncodeToMemory(block)), "bad_key": "-----BEGIN X-----\nnot a key\n-----END X-----",
	})
	_, err = v.root.Logical().Write("ssh/roles/"+v.role, map[string]any{
		"key_type": "ca", "allow_user_certificates": true, "allowed_users": "git,other", "default_user": "git", "ttl": "5m", "max_ttl": "1h",
	})
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = v.root.Logical().Delete("ssh/roles/" + v.role) })
	v.policy("sign", `path "ssh/sign/`+v.role+`" { capabilities = ["create", "update"] }`)

	basic := credential.PublishRoute{
		Revision: "git-http@1.0.0", Kind: credential.PublishBasic, Path: path, Policy: policy,
		UsernameField: "username", PasswordField: "password", TTLSeconds: 600,
	}
	key := credential.PublishRoute{
		Revision: "git-ssh@1.0.0", Kind: credential.PublishSSHKey, Path: path, Policy: policy, KeyField: "key", User: "git", TTLSeconds: 600,
	}
	certificate := credential.PublishRoute{
		Revision: "git-cert@1.0.0", Kind: credential.PublishSSHCertificate, Path: "ssh/sign/" + v.role, Policy: v.name("sign"), User: "git", TTLSeconds: 600,
	}
	for _, c := range []struct {
		route credential.PublishRoute
		kind  repotx.AuthKind
	}{{basic, repotx.AuthBasic}, {key, repotx.AuthSSHKey}, {certificate, repotx.AuthSSHCertificate}} {
		require.NoError(t, client.CheckPublishRoute(t.Context(), "worker-1", c.route))
		session := begin(t, client, &ledger{}, c.route.Policy)
		auth, err := session.Publish(t.Context(), c.route)
		require.NoError(t, err)
		require.Equal(t, c.kind, auth.Kind())
		require.Equal(t, "worker", session.Evidence()[0].TargetKind)
		require.NoError(t, session.Revoke(t.Context()))
	}

	session := begin(t, client, &ledger{}, policy, v.name("sign"))
	for name, change := range map[string]func() credential.PublishRoute{
		"no password": func() credential.PublishRoute { r := basic; r.PasswordField = "none"; return r },
		"no key":      func() credential.PublishRoute { r := key; r.KeyField = "bad_key"; return r },
		"not allowed": func() credential.PublishRoute { r := certificate; r.User = "root"; return r },
	} {
		_, err := session.Publish(t.Context(), change())
		require.Equal(t, evidence.CodeCredentialFailed, evidence.CodeOf(err), name)
		require.NotContains(t, err.Error(), canary)
	}

	// A certificate for someone else is refused, whoever made it.
	v.mu.Lock()
	v.fault = func(r *http.Request) *http.Response {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return &http.Response{StatusCode: http.StatusBadRequest, Body: http.NoBody}
		}
		body = bytes.Replace(body, []byte(`"valid_principals":"git"`), []byte(`"valid_principals":"other"`), 1)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		return nil
	}
	v.mu.Unlock()
	_, err = session.Publish(t.Context(), certificate)
	require.Equal(t, evidence.CodeCredentialFailed, evidence.CodeOf(err))
	require.ErrorContains(t, err, "other principals")
}

// B26
func TestTheSigningKeyIsOneEd25519Key(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	client := v.open(v.config())
	public, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	good := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	path, policy := v.secret("signing", map[string]any{"good": good, "two": good + good, "junk": "not a key at all"})
	route := func(field string) credential.SigningRoute {
		return credential.SigningRoute{Revision: "signing@1.0.0", Path: path, Policy: policy, Field: field, TTLSeconds: 600}
	}
	require.NoError(t, client.CheckSigningRoute(t.Context(), "worker-1", route("good")))
	session := begin(t, client, &ledger{}, policy)
	key, err := session.SigningKey(t.Context(), route("good"))
	require.NoError(t, err)
	require.Equal(t, public, key.Public())
	for _, field := range []string{"two", "junk", "none"} {
		_, err := session.SigningKey(t.Context(), route(field))
		require.Equal(t, evidence.CodeCredentialFailed, evidence.CodeOf(err), field)
	}
}

// A30, B4: the worker's own token is renewed, and when it cannot be, Health says so.
func TestTheWorkersOwnTokenIsKeptAliveAsLongAsVaultLetsIt(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	config := v.config()
	config.TokenFile = v.tokenFile("3s")
	client := v.open(config)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- client.Run(ctx) }()
	route := v.route("demo", canary, file("demo"))
	time.Sleep(5 * time.Second) // beyond the token's own life
	require.NoError(t, client.Health(time.Now()))
	require.NoError(t, client.CheckRoute(t.Context(), "worker-1", route))

	require.NoError(t, v.root.Auth().Token().RevokeTree(strings.TrimSpace(string(read(t, config.TokenFile)))))
	require.Eventually(t, func() bool { return client.Health(time.Now()) != nil }, 10*time.Second, 50*time.Millisecond)

	// A new token in the file mends it.
	require.NoError(t, os.WriteFile(config.TokenFile, read(t, v.tokenFile("10m")), 0o600))
	require.Eventually(t, func() bool { return client.Health(time.Now()) == nil }, 20*time.Second, 50*time.Millisecond)
	require.NoError(t, client.CheckRoute(t.Context(), "worker-1", route))
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled, "the end of the watch is no success")
}
