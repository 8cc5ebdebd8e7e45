package pins_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness"
	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/profiles"
	"github.com/rein-aharness/harness/queue"
	"github.com/rein-aharness/harness/rein/credential"
	"github.com/rein-aharness/harness/tests/deployment"
)

// broken are the names of the links that a check found broken.
func broken(r profiles.Readiness) []string {
	var names []string
	for _, link := range r.Links {
		if !link.OK {
			names = append(names, link.Name)
		}
	}
	return names
}

// A6, A7: a profile becomes ready only when every link of its chain holds; with any one removed it does not, and that one is named.
func TestEachMissingLinkKeepsAProfileFromBeingReadyAndIsNamed(t *testing.T) {
	t.Parallel()
	p := open(t, deployment.Settings{}, harness.Options{})
	path, policy := p.Stack.Credential(t, map[string]string{"token": "nobody's"})
	route := credential.Route{
		Revision: "token@1.0.0", Path: path, Policy: policy, Field: "token", TTLSeconds: 60,
		Inject: credential.Injection{Kind: credential.InjectFile, Target: "token"},
	}
	plain := p.Stack.Repository(t, "plain", files)
	plain.Git(t, "config", "receive.advertiseAtomic", "false")
	with := func(edit func(*credential.Route)) func(*profiles.Profile) {
		return func(profile *profiles.Profile) {
			r := route
			edit(&r)
			profile.Credentials = []credential.Route{r}
		}
	}
	whole := with(func(*credential.Route) {})
	cases := []struct {
		name       string
		edit       func(*profiles.Profile)
		config     func(*harness.Config)
		repository string
		before     func()
		broken     []string
	}{
		{name: "nothing", edit: whole},
		{name: "image", edit: func(profile *profiles.Profile) {
			profile.Sandbox.Image = "sha256:" + strings.Repeat("0", 64)
		}, broken: []string{"runtime and image", "isolation"}},
		{name: "limit", edit: func(profile *profiles.Profile) {
			profile.Sandbox.Runtime = "runsc"
		}, broken: []string{"runtime and image", "isolation"}},
		{name: "init", edit: whole, config: func(c *harness.Config) { c.Engine.InitBinary = "/usr/bin/runsc" }, broken: []string{"isolation"}},
		{name: "secret", edit: with(func(r *credential.Route) { r.Path += "-not" }), broken: []string{"route token@1.0.0"}},
		{name: "field", edit: with(func(r *credential.Route) { r.Field = "not" }), broken: []string{"route token@1.0.0"}},
		{name: "policy", edit: with(func(r *credential.Route) { r.Policy += "-not" }), broken: []string{"route token@1.0.0"}},
		{name: "publish secret", edit: func(profile *profiles.Profile) {
			profile.Publish.Path += "-not"
		}, broken: []string{"route git-http@1.0.0", "remote"}},
		{name: "publish credential", edit: func(profile *profiles.Profile) {
			profile.Publish.Path, profile.Publish.Policy = p.Stack.Credential(t, map[string]string{"username": "nobody", "password": "wrong"})
		}, broken: []string{"remote"}},
		{name: "signing", edit: whole, config: func(c *harness.Config) { c.Signing.Path += "-not" }, broken: []string{"signing"}},
		{name: "remote capability", edit: whole, repository: plain.HTTPURL, broken: []string{"remote"}},
		{name: "remote", edit: whole, repository: strings.TrimSuffix(plain.HTTPURL, ".git") + "-not.git", broken: []string{"remote"}},
		{name: "queue", edit: whole, before: func() {
			p.Forge(t, `UPDATE control SET system_identifier = '1'`)
		}, broken: []string{"queue"}}, // the last: from here on the database is another's
	}
	for i, c := range cases {
		profile := p.Profile(t, "linked-"+strings.ReplaceAll(c.name, " ", "-"), "codemod", gofumpt...)
		c.edit(profile)
		ref, _, err := p.h.Profiles().Publish(t.Context(), profile, "test")
		require.NoError(t, err, c.name)
		h := p.h
		if c.config != nil {
			config := p.Config
			c.config(&config)
			h, err = harness.Open(t.Context(), config, harness.Options{Vault: true, Engine: true})
			require.NoError(t, err, c.name)
		}
		if c.before != nil {
			c.before()
		}
		if c.repository == "" {
			c.repository = p.repo.HTTPURL
		}
		found, err := h.CheckProfile(t.Context(), ref, harness.CheckOptions{Repository: c.repository})
		require.NoError(t, err, c.name)
		require.Equal(t, c.broken, broken(found), "%s: %+v", c.name, found.Links)
		state, reason, err := p.h.Profiles().Standing(t.Context(), p.Config.Engine.Name, ref.Digest, found.CheckedAt)
		require.NoError(t, err)
		if i == 0 {
			require.Equal(t, profiles.StateReady, state)
		} else {
			require.Equal(t, profiles.StateUnverified, state, c.name)
			for _, name := range c.broken {
				require.Contains(t, reason, name)
			}
		}
		if h != p.h {
			require.NoError(t, h.Close(context.WithoutCancel(t.Context())))
		}
	}
}

// A5: a profile that nobody has found ready runs only as a labelled proof, as often as it says, and the label shows in the run, the
// evidence, the statement and every view.
func TestUnverifiedProfileRunsOnlyAsALabelledBoundedProof(t *testing.T) {
	t.Parallel()
	p := open(t, deployment.Settings{Concurrency: 1}, harness.Options{})
	profile := p.Profile(t, "unproven", "codemod", gofumpt...)
	profile.Limits.ProofRuns = 1
	ref, _, err := p.h.Profiles().Publish(t.Context(), profile, "test")
	require.NoError(t, err)
	labelled := func(r *queue.Request) { r.Proof = "first-light" }
	proof := p.emit(t, "proof", ref, labelled)
	stop := deployment.Serve(t, p.h)
	proof = p.wait(t, proof)
	without := p.wait(t, p.emit(t, "without", ref))
	second := p.wait(t, p.emit(t, "second", ref, labelled))
	stop()

	require.Equal(t, evidence.StateCompleted, proof.State, "%s %s", proof.FailedStage, proof.Code)
	p.refused(t, without, evidence.CodeProfileUnverified)
	p.refused(t, second, evidence.CodeProfileUnverified)

	require.Equal(t, "first-light", proof.Proof)
	require.True(t, fact[evidence.Emitted](t, p.h, proof).Proof)
	resolved := fact[evidence.Resolved](t, p.h, proof)
	require.True(t, resolved.Proof)
	require.Equal(t, string(profiles.StateUnverified), resolved.Readiness)
	require.Contains(t, fact[evidence.Admitted](t, p.h, proof).Reasons, "proof_labelled")
	result, err := queue.DecodeResult(proof.Result)
	require.NoError(t, err)
	require.Equal(t, "first-light", result.Proof)
	report := deployment.Verify(t, p.h, proof.ID)
	statement := report.Checks[slices.IndexFunc(report.Checks, func(c evidence.Check) bool { return c.Name == evidence.CheckStatement })]
	require.Contains(t, statement.Detail, "labelled proof")
	for _, view := range [][]string{
		{"runs", "list"},
		{"runs", "show", proof.ID},
		{"runs", "wait", proof.ID},
		{"runs", "list", "--json"},
		{"runs", "show", proof.ID, "--json"},
		{"runs", "wait", proof.ID, "--json"},
	} {
		out, code := p.Command(t, view...)
		require.Zero(t, code, view)
		require.Contains(t, out, "first-light", view)
	}
	for _, view := range [][]string{{"evidence", "verify", proof.ID}, {"evidence", "show", proof.ID}} {
		out, code := p.Command(t, view...)
		require.Zero(t, code, view)
		require.Contains(t, out, "proof", view)
	}
}
