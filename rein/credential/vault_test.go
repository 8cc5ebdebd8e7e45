package credential_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/vault/api"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rein-aharness/harness/rein/credential"
	"github.com/rein-aharness/harness/tests/stack"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// vault is a real Vault, as a test sees it: with a token role, policies and secrets of its own, and a proxy in between that
// counts and injects faults.
type vault struct {
	t         *testing.T
	address   string
	root      *api.Client
	transport *http.Transport
	id        string
	role      string
	workers   []string // policies of a worker

	mu    sync.Mutex
	calls []string // "METHOD path" of each request through the proxy
	fault func(*http.Request) *http.Response
	alter func(*http.Request, []byte) []byte
}

func newVault(t *testing.T) *vault {
	t.Helper()
	s := stack.Load(t)
	v := &vault{t: t, id: strings.ToLower(rand.Text()[:12]), transport: &http.Transport{}}
	v.role = "harness-test-" + v.id
	root, err := api.NewClient(&api.Config{Address: s.Vault.Address, HttpClient: &http.Client{Transport: v.transport}})
	require.NoError(t, err)
	root.SetToken(s.Secret(t, s.Vault.RootTokenFile))
	v.root = root
	v.proxy(s.Vault.Address)
	v.tokenRole(map[string]any{})
	v.policy("worker", fmt.Sprintf(`
path "auth/token/create/%s"       { capabilities = ["create", "update"] }
path "auth/token/lookup-accessor" { capabilities = ["create", "update"] }
path "auth/token/revoke-accessor" { capabilities = ["create", "update"] }
path "auth/token/lookup-self"     { capabilities = ["read"] }
path "auth/token/renew-self"      { capabilities = ["update"] }
path "auth/token/revoke-self"     { capabilities = ["update"] }`, v.role))
	v.workers = []string{v.name("worker")}
	return v
}

// name is the name of one of the test's own policies.
func (v *vault) name(part string) string { return "harness-test-" + v.id + "-" + part }

func (v *vault) policy(part, rules string) {
	v.t.Helper()
	require.NoError(v.t, v.root.Sys().PutPolicy(v.name(part), rules))
	v.t.Cleanup(func() { require.NoError(v.t, v.root.Sys().DeletePolicy(v.name(part))) })
}

func (v *vault) tokenRole(changes map[string]any) {
	v.t.Helper()
	role := map[string]any{
		"allowed_policies_glob": []string{v.name("*")}, "orphan": true, "renewable": false, "token_explicit_max_ttl": "1h",
		"token_type": "service",
	}
	for key, value := range changes {
		role[key] = value
	}
	_, err := v.root.Logical().Write("auth/token/roles/"+v.role, role)
	require.NoError(v.t, err)
}

// secret stores a kv version 2 secret with a policy that reads it, and returns its path and policy.
func (v *vault) secret(part string, fields map[string]any) (path, policy string) {
	v.t.Helper()
	name := "harness-test/" + v.id + "/" + part
	_, err := v.root.KVv2("secret").Put(context.Background(), name, fields)
	require.NoError(v.t, err)
	v.t.Cleanup(func() { require.NoError(v.t, v.root.KVv2("secret").DeleteMetadata(context.Background(), name)) })
	v.policy(part, `path "secret/data/`+name+`" { capabilities = ["read"] }`)
	return "secret/data/" + name, v.name(part)
}

// route stores a value and returns the route to it.
func (v *vault) route(part, value string, inject credential.Injection) credential.Route {
	v.t.Helper()
	path, policy := v.secret(part, map[string]any{"token": value})
	return credential.Route{
		Revision: part + "@1.0.0", Path: path, Policy: policy, Field: "token", Inject: inject, TTLSeconds: 600,
	}
}

func file(target string) credential.Injection {
	return credential.Injection{Kind: credential.InjectFile, Target: target}
}

// proxy puts a reverse proxy before Vault.
func (v *vault) proxy(address string) {
	v.t.Helper()
	target, err := url.Parse(address)
	require.NoError(v.t, err)
	reverse := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: v.transport,
		ErrorLog:  log.New(io.Discard, "", 0), // of requests that a test gave up
		ModifyResponse: func(answer *http.Response) error {
			v.mu.Lock()
			alter := v.alter
			v.mu.Unlock()
			if alter == nil {
				return nil
			}
			body, err := io.ReadAll(answer.Body)
			if err != nil {
				return err
			}
			body = alter(answer.Request, body)
			answer.Body = io.NopCloser(bytes.NewReader(body))
			answer.ContentLength = int64(len(body))
			answer.Header.Set("Content-Length", fmt.Sprint(len(body)))
			return nil
		},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v.mu.Lock()
		v.calls = append(v.calls, r.Method+" "+strings.TrimPrefix(r.URL.Path, "/v1/"))
		fault := v.fault
		v.mu.Unlock()
		if fault != nil {
			if answer := fault(r); answer != nil {
				defer answer.Body.Close()
				w.WriteHeader(answer.StatusCode)
				_, _ = io.Copy(w, answer.Body)
				return
			}
		}
		reverse.ServeHTTP(w, r)
	}))
	v.t.Cleanup(func() {
		server.Close()
		v.transport.CloseIdleConnections()
	})
	v.address = server.URL
}

// answer replaces Vault's answer to every request whose path ends so.
func (v *vault) answer(suffix string, status int, body string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.fault = func(r *http.Request) *http.Response {
		if !strings.HasSuffix(r.URL.Path, suffix) {
			return nil
		}
		return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body))}
	}
}

func (v *vault) honest() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.fault, v.alter = nil, nil
}

// change alters the body of Vault's answers to requests whose path ends so.
func (v *vault) change(suffix, old, replacement string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.alter = func(r *http.Request, body []byte) []byte {
		if !strings.HasSuffix(r.URL.Path, suffix) {
			return body
		}
		return bytes.Replace(body, []byte(old), []byte(replacement), 1)
	}
}

func (v *vault) called() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return append([]string{}, v.calls...)
}

// tokenFile makes a worker's token with the given lifetime and puts it into a file.
func (v *vault) tokenFile(ttl string) string {
	v.t.Helper()
	answer, err := v.root.Auth().Token().CreateOrphan(&api.TokenCreateRequest{
		Policies: v.workers, NoDefaultPolicy: true, TTL: ttl, Type: "service",
	})
	require.NoError(v.t, err)
	v.t.Cleanup(func() { _ = v.root.Auth().Token().RevokeAccessor(answer.Auth.Accessor) })
	name := filepath.Join(v.t.TempDir(), "token")
	require.NoError(v.t, os.WriteFile(name, []byte(answer.Auth.ClientToken+"\n"), 0o600))
	return name
}

func (v *vault) config() credential.Config {
	return credential.Config{Address: v.address, TokenRole: v.role, TokenFile: v.tokenFile("10m")}
}

func (v *vault) open(config credential.Config) *credential.Client {
	v.t.Helper()
	client, err := credential.Open(context.Background(), config)
	require.NoError(v.t, err)
	v.t.Cleanup(func() { require.NoError(v.t, client.Close(context.Background())) })
	return client
}

// alive asks Vault itself whether an accessor is known.
func (v *vault) alive(accessor string) bool {
	v.t.Helper()
	_, err := v.root.Auth().Token().LookupAccessor(accessor)
	var answer *api.ResponseError
	if errors.As(err, &answer) {
		require.Contains(v.t, answer.Error(), "invalid accessor")
		return false
	}
	require.NoError(v.t, err)
	return true
}

// ledger keeps accessors in memory; it stands in for the queue's table, which is tested with it.
type ledger struct {
	mu      sync.Mutex
	tokens  []credential.Token
	revoked []string
	refuse  error
	before  func(credential.Token)
}

func (l *ledger) RecordToken(_ context.Context, token credential.Token) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.before != nil {
		l.before(token)
	}
	l.tokens = append(l.tokens, token)
	return l.refuse
}

func (l *ledger) TokenRevoked(_ context.Context, accessor string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refuse != nil {
		return l.refuse
	}
	l.revoked = append(l.revoked, accessor)
	return nil
}

func holder() credential.Holder {
	return credential.Holder{Run: "run-1", Epoch: 3, Owner: "worker-1/nonce", Purpose: credential.PurposeSession}
}

func begin(t *testing.T, client *credential.Client, l credential.Ledger, policies ...string) *credential.Session {
	t.Helper()
	session, err := client.Begin(t.Context(), holder(), policies, 5*time.Minute, l)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := client.RevokeAccessor(ctx, session.Accessor()); err != nil {
			t.Logf("left to its end: %v", err)
		}
	})
	return session
}
