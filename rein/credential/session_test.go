package credential_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/rein/credential"
)

const canary = "canary-5up3r-s3cret-value"

// A28, A30, A31
func TestASessionReleasesItsRoutesAndIsGoneAfterRevocation(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	client := v.open(v.config())
	route := v.route("demo", canary, file("demo"))
	l := &ledger{before: func(credential.Token) {
		for _, call := range v.called() {
			require.NotContains(t, call, route.Path, "the accessor is recorded before the first use")
		}
	}}
	session := begin(t, client, l, route.Policy)
	require.Len(t, l.tokens, 1)
	token := l.tokens[0]
	require.Equal(t, session.Accessor(), token.Accessor)
	require.Equal(t, "run-1", token.Run)
	require.EqualValues(t, 3, token.Epoch)
	require.WithinDuration(t, time.Now().Add(5*time.Minute), token.ExpiresAt, time.Minute)

	seen, err := v.root.Auth().Token().LookupAccessor(token.Accessor)
	require.NoError(t, err)
	require.Equal(t, []any{route.Policy}, seen.Data["policies"], "this policy, and not even the default one")
	require.Equal(t, json.Number("300"), seen.Data["explicit_max_ttl"])
	require.Equal(t, map[string]any{
		"harness_run": "run-1", "harness_epoch": "3", "harness_owner": "worker-1/nonce", "harness_purpose": "session",
	}, seen.Data["meta"])

	material, err := session.Read(t.Context(), route)
	require.NoError(t, err)
	require.Equal(t, canary, string(material.Value.Reveal()))
	require.Equal(t, "/run/harness/demo", material.Inject.Place())
	require.Equal(t, [][]byte{[]byte(canary)}, session.Values())

	require.True(t, v.alive(token.Accessor))
	require.NoError(t, session.Revoke(t.Context()))
	require.False(t, v.alive(token.Accessor))
	require.Equal(t, []string{token.Accessor}, l.revoked)
	require.NoError(t, session.Revoke(t.Context()), "again")
	require.Equal(t, canary, string(material.Value.Reveal()), "the change is still to be searched for it")
	_, err = session.Read(t.Context(), route)
	require.Equal(t, evidence.CodeCredentialFailed, evidence.CodeOf(err))

	session.Wipe()
	require.True(t, material.Value.Empty())
	require.Empty(t, session.Values())

	uses := session.Evidence()
	require.Len(t, uses, 2)
	require.Equal(t, "demo@1.0.0", uses[0].Route)
	require.Equal(t, "file", uses[0].TargetKind)
	require.Equal(t, "released", uses[0].Outcome)
	require.EqualValues(t, 300, uses[0].LifetimeSeconds)
	require.Equal(t, "failed", uses[1].Outcome)
	text, err := json.Marshal(uses)
	require.NoError(t, err)
	require.NotContains(t, string(text), token.Accessor)
	require.NotContains(t, string(text), canary)
}

// A31
func TestAnUndeclaredRouteIsRefusedWithoutACall(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	client := v.open(v.config())
	route := v.route("demo", canary, file("demo"))
	other := v.route("other", canary, file("other"))
	session := begin(t, client, &ledger{}, route.Policy)
	before := len(v.called())
	short := route
	short.TTLSeconds = 299
	unbounded := route
	unbounded.TTLSeconds = 0
	for name, undeclared := range map[string]credential.Route{
		"other policy": other, "token outlives it": short, "invalid": unbounded, "empty": {},
	} {
		_, err := session.Read(t.Context(), undeclared)
		require.Equal(t, evidence.CodeCredentialUndeclared, evidence.CodeOf(err), name)
	}
	_, err := session.Publish(t.Context(), credential.PublishRoute{
		Revision: "p@1.0.0", Kind: credential.PublishBasic, Path: other.Path, Policy: other.Policy, UsernameField: "u", PasswordField: "p", TTLSeconds: 600,
	})
	require.Equal(t, evidence.CodeCredentialUndeclared, evidence.CodeOf(err))
	require.Len(t, v.called(), before)

	// A route that names the session's policy and another's path: Vault itself refuses.
	crossed := route
	crossed.Path = other.Path
	_, err = session.Read(t.Context(), crossed)
	require.Equal(t, evidence.CodeCredentialFailed, evidence.CodeOf(err))
}

// A30, B4: without a record there is no session, and no token is left.
func TestATokenThatCannotBeRecordedIsRevokedUnused(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	client := v.open(v.config())
	route := v.route("demo", canary, file("demo"))
	lost := errors.New("lease lost")
	l := &ledger{refuse: lost}
	ctx, cancel := context.WithCancel(t.Context())
	l.before = func(credential.Token) { cancel() } // the run is cancelled at the same moment
	_, err := client.Begin(ctx, holder(), []string{route.Policy}, time.Minute, l)
	require.ErrorIs(t, err, lost)
	require.Equal(t, evidence.CodeCredentialFailed, evidence.CodeOf(err))
	require.Len(t, l.tokens, 1)
	require.False(t, v.alive(l.tokens[0].Accessor))
	for _, call := range v.called() {
		require.NotContains(t, call, route.Path)
	}
}

// A31: what the token role adds is refused, and the token with it.
func TestATokenThatIsNotWhatWasAskedForIsRevoked(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*vault){
		"not an orphan": func(v *vault) { v.tokenRole(map[string]any{"orphan": false}) },
		"more policies": func(v *vault) { v.change("create/"+v.role, `"policies":["`, `"policies":["extra","`) },
		"identity policy": func(v *vault) {
			v.change("create/"+v.role, `"policies":["`, `"identity_policies":["extra"],"policies":["`)
		},
		"renewable":   func(v *vault) { v.change("create/"+v.role, `"renewable":false,"entity`, `"renewable":true,"entity`) },
		"longer life": func(v *vault) { v.change("create/"+v.role, `"lease_duration":60`, `"lease_duration":6000`) },
		"no end":      func(v *vault) { v.change("create/"+v.role, `"lease_duration":60`, `"lease_duration":0`) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newVault(t)
			client := v.open(v.config())
			route := v.route("demo", canary, file("demo"))
			spoil(v)
			l := &ledger{}
			_, err := client.Begin(t.Context(), holder(), []string{route.Policy}, time.Minute, l)
			require.Equal(t, evidence.CodeCredentialFailed, evidence.CodeOf(err))
			require.Len(t, l.tokens, 1)
			require.False(t, v.alive(l.tokens[0].Accessor), "%v", err)
		})
	}
}

// A31, B3: a policy that the role does not allow, or a holder that is none.
func TestBeginRefusesWhatIsNotWhole(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	client := v.open(v.config())
	route := v.route("demo", canary, file("demo"))
	good := []string{route.Policy}
	for name, c := range map[string]struct {
		change   func(*credential.Holder)
		policies []string
		ttl      time.Duration
	}{
		"foreign policy": {func(*credential.Holder) {}, []string{"harness-foreign"}, time.Minute},
		"root policy":    {func(*credential.Holder) {}, []string{"root"}, time.Minute},
		"no policy":      {func(*credential.Holder) {}, nil, time.Minute},
		"twice":          {func(*credential.Holder) {}, []string{route.Policy, route.Policy}, time.Minute},
		"no run":         {func(h *credential.Holder) { h.Run = "" }, good, time.Minute},
		"no epoch":       {func(h *credential.Holder) { h.Epoch = 0 }, good, time.Minute},
		"no owner":       {func(h *credential.Holder) { h.Owner = "" }, good, time.Minute},
		"no purpose":     {func(h *credential.Holder) { h.Purpose = "" }, good, time.Minute},
		"no lifetime":    {func(*credential.Holder) {}, good, 0},
		"too long":       {func(*credential.Holder) {}, good, credential.MaxTTL + time.Second},
	} {
		h := holder()
		c.change(&h)
		l := &ledger{}
		_, err := client.Begin(t.Context(), h, c.policies, c.ttl, l)
		require.Equal(t, evidence.CodeCredentialFailed, evidence.CodeOf(err), name)
		require.Empty(t, l.tokens, name)
	}
}

// A31
func TestAValueThatIsNotThereIsNoCredential(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	client := v.open(v.config())
	path, policy := v.secret("odd", map[string]any{
		"number": 12345678, "empty": "", "short": "abc  ", "zero": "abcdef\x00g", "long": strings.Repeat("x", 1<<16), "good": canary,
	})
	session := begin(t, client, &ledger{}, policy)
	for field, kind := range map[string]credential.Injection{
		"number": file("x"), "empty": file("x"), "short": file("x"), "long": file("x"), "missing": file("x"),
		"zero": {Kind: credential.InjectEnv, Target: "X"},
	} {
		_, err := session.Read(t.Context(), credential.Route{
			Revision: "odd@1.0.0", Path: path, Policy: policy, Field: field, Inject: kind, TTLSeconds: 600,
		})
		require.Equal(t, evidence.CodeCredentialFailed, evidence.CodeOf(err), field)
		require.NotContains(t, err.Error(), canary)
	}
	good := credential.Route{Revision: "odd@1.0.0", Path: path, Policy: policy, Field: "good", Inject: file("x"), TTLSeconds: 600}
	_, err := session.Read(t.Context(), good)
	require.NoError(t, err)
	// The newest version is deleted: there is metadata and no value.
	name := strings.TrimPrefix(path, "secret/data/")
	require.NoError(t, v.root.KVv2("secret").Delete(t.Context(), name))
	_, err = session.Read(t.Context(), good)
	require.Equal(t, evidence.CodeCredentialFailed, evidence.CodeOf(err))
}

// A30: only Vault's own word that the accessor is unknown counts.
func TestARevocationIsBelievedOnlyWhenTheAccessorIsUnknown(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		path   string
		status int
		body   string
	}{
		"revocation refused":          {"revoke-accessor", http.StatusForbidden, `{"errors":["permission denied"]}`},
		"revocation lost in a proxy":  {"revoke-accessor", http.StatusNotFound, `<html>not found</html>`},
		"Vault sealed":                {"revoke-accessor", http.StatusServiceUnavailable, `{"errors":["Vault is sealed"]}`},
		"lookup refused":              {"lookup-accessor", http.StatusForbidden, `{"errors":["permission denied"]}`},
		"lookup lost in a proxy":      {"lookup-accessor", http.StatusNotFound, `invalid accessor`},
		"lookup fails":                {"lookup-accessor", http.StatusInternalServerError, `{"errors":["invalid accessor"]}`},
		"revocation answered for fun": {"revoke-accessor", http.StatusNoContent, ``},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newVault(t)
			client := v.open(v.config())
			route := v.route("demo", canary, file("demo"))
			l := &ledger{}
			session := begin(t, client, l, route.Policy)
			v.answer(c.path, c.status, c.body)
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
			defer cancel()
			err := session.Revoke(ctx)
			require.Equal(t, evidence.CodeRevocationFailed, evidence.CodeOf(err))
			if c.status == http.StatusNoContent {
				require.ErrorIs(t, err, credential.ErrStillAlive)
			}
			require.Empty(t, l.revoked)
			v.honest()
			require.NoError(t, session.Revoke(t.Context()))
			require.False(t, v.alive(session.Accessor()))
		})
	}
}

func TestARevocationThatTheLedgerDoesNotKnowIsAFailure(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	client := v.open(v.config())
	route := v.route("demo", canary, file("demo"))
	l := &ledger{}
	session := begin(t, client, l, route.Policy)
	l.refuse = errors.New("database down")
	err := session.Revoke(t.Context())
	require.Equal(t, evidence.CodeRevocationFailed, evidence.CodeOf(err))
	require.ErrorIs(t, err, l.refuse)
	l.refuse = nil
	require.NoError(t, session.Revoke(t.Context()))
}

// A30: another worker, which has only the accessor, can end the session.
func TestAnyWorkerRevokesByAccessor(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	route := v.route("demo", canary, file("demo"))
	session := begin(t, v.open(v.config()), &ledger{}, route.Policy)
	other := v.open(v.config())
	require.NoError(t, other.RevokeAccessor(t.Context(), session.Accessor()))
	require.False(t, v.alive(session.Accessor()))
	require.NoError(t, other.RevokeAccessor(t.Context(), session.Accessor()), "again")
	require.Error(t, other.RevokeAccessor(t.Context(), ""))
	_, err := session.Read(t.Context(), route)
	require.Equal(t, evidence.CodeCredentialFailed, evidence.CodeOf(err))
}

// A30: the end of the worker's own token does not end its sessions, and nothing else than the reaper is needed to.
func TestASessionOutlivesItsWorkersToken(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	config := v.config()
	client := v.open(config)
	route := v.route("demo", canary, file("demo"))
	session := begin(t, client, &ledger{}, route.Policy)
	token := string(read(t, config.TokenFile))
	require.NoError(t, v.root.Auth().Token().RevokeTree(strings.TrimSpace(token)))
	require.True(t, v.alive(session.Accessor()))
	_, err := session.Read(t.Context(), route)
	require.NoError(t, err)
	require.Equal(t, evidence.CodeRevocationFailed, evidence.CodeOf(session.Revoke(t.Context())))
	require.NoError(t, v.open(v.config()).RevokeAccessor(t.Context(), session.Accessor()))
}

// A27, A28: no verb, encoder or error shows a value.
func TestNothingThatIsPrintedShowsAValue(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	client := v.open(v.config())
	route := v.route("demo", canary, file("demo"))
	session := begin(t, client, &ledger{}, route.Policy)
	material, err := session.Read(t.Context(), route)
	require.NoError(t, err)
	for _, thing := range []any{
		material, &material, material.Value, &material.Value, session, client,
		[]credential.Material{material},
		map[string]credential.Secret{"x": material.Value},
		struct{ hidden credential.Secret }{material.Value},
	} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			text := fmt.Sprintf(verb, thing)
			require.NotContains(t, text, canary, verb)
			require.NotContains(t, text, fmt.Sprintf("%x", canary), verb)
			require.NotContains(t, text, "hvs.", verb)
		}
	}
	encoded, err := json.Marshal(material)
	require.NoError(t, err)
	require.Contains(t, string(encoded), credential.Redacted)
	require.NotContains(t, string(encoded), canary)
}

func TestSessionsAreIndependent(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	client := v.open(v.config())
	route := v.route("demo", canary, file("demo"))
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			session, err := client.Begin(context.Background(), holder(), []string{route.Policy}, time.Minute, &ledger{})
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := session.Read(context.Background(), route); err != nil {
				t.Error(err)
			}
			if err := session.Revoke(context.Background()); err != nil {
				t.Error(err)
			}
			session.Wipe()
		})
	}
	wait.Wait()
}
