package pins_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness"
	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/profiles"
	"github.com/rein-aharness/harness/queue"
	"github.com/rein-aharness/harness/sandbox"
	"github.com/rein-aharness/harness/tests/deployment"
	"github.com/rein-aharness/harness/tests/stack"
)

// A4, A5, A8, A11: what is blocked, disabled, gone, never checked, no longer vouched for, or cannot run on this engine is refused by
// its name, once and for all, and the engine is not asked to create anything.
func TestWhatMayNotRunIsRefusedBeforeAnythingIsCreated(t *testing.T) {
	t.Parallel()
	p := open(t, deployment.Settings{Concurrency: 4, WaiveManifest: true}, harness.Options{})
	waivable := func(profile *profiles.Profile) { profile.Controls = profiles.Controls{} }
	cases := []struct {
		name    string
		code    evidence.Code
		subject string
		edit    func(*profiles.Profile)
		request func(*queue.Request)
		after   func(profiles.Ref) // the emission
	}{
		{name: "blocked", code: evidence.CodeProfileBlocked, after: func(r profiles.Ref) {
			require.NoError(t, p.h.Profiles().Block(t.Context(), r.Digest, "unsafe", "test"))
		}},
		{name: "disabled", code: evidence.CodeProfileDisabled, after: func(r profiles.Ref) {
			require.NoError(t, p.h.Profiles().Disable(t.Context(), r.Digest, "retired", "test"))
		}},
		{name: "gone", code: evidence.CodeProfileUnknown, after: func(r profiles.Ref) {
			p.Forge(t, `DELETE FROM profile_revision WHERE digest = $1`, r.Digest)
		}},
		{name: "never checked", code: evidence.CodeProfileUnverified, after: func(r profiles.Ref) {
			p.Forge(t, `DELETE FROM profile_readiness WHERE digest = $1`, r.Digest)
		}},
		{name: "checked on another engine", code: evidence.CodeProfileUnverified, after: func(r profiles.Ref) {
			p.Forge(t, `UPDATE profile_readiness SET engine = 'elsewhere' WHERE digest = $1`, r.Digest)
		}},
		{name: "found broken", code: evidence.CodeProfileUnverified, after: func(r profiles.Ref) {
			p.Forge(t, `UPDATE profile_readiness SET state = 'unverified', reason = 'broken: image' WHERE digest = $1`, r.Digest)
		}},
		{name: "expired", code: evidence.CodeProfileNotReady, after: func(r profiles.Ref) {
			p.Forge(t, `UPDATE profile_readiness SET checked_at = now() - interval '2 hours', expires_at = now() - interval '1 second'
				WHERE digest = $1`, r.Digest)
		}},
		{name: "no image", code: evidence.CodeImageMissing, subject: "sha256:" + strings.Repeat("0", 64), edit: func(profile *profiles.Profile) {
			profile.Sandbox.Image = "sha256:" + strings.Repeat("0", 64)
		}},
		{name: "limit not enforced", code: evidence.CodeLimitNotEnforced, subject: sandbox.LimitMemory, edit: func(profile *profiles.Profile) {
			profile.Sandbox.Runtime, profile.Sandbox.Required = sandbox.RuntimeRunsc, []string{sandbox.LimitMemory}
		}},
		{name: "fencing required and waived", code: evidence.CodeAdmissionDenied, subject: "fencing_required", edit: func(profile *profiles.Profile) {
			profile.Controls = profiles.Controls{Required: []profiles.Control{profiles.ControlFencing}}
		}, request: func(r *queue.Request) { r.WaiveFencing = true }},
		{name: "manifest required and waived", code: evidence.CodeAdmissionDenied, subject: "manifest_required", edit: func(profile *profiles.Profile) {
			profile.Controls = profiles.Controls{Required: []profiles.Control{profiles.ControlManifest}}
		}},
	}
	runs := make([]queue.Run, len(cases))
	for i, c := range cases {
		edits := []func(*profiles.Profile){waivable}
		if c.edit != nil {
			edits = append(edits, c.edit)
		}
		ref := p.format(t, strings.ReplaceAll(c.name, " ", "-"), edits...)
		var requests []func(*queue.Request)
		if c.request != nil {
			requests = append(requests, c.request)
		}
		runs[i] = p.emit(t, c.name, ref, requests...)
		if c.after != nil {
			c.after(ref)
		}
	}
	deployment.Serve(t, p.h)
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			run := p.wait(t, runs[i])
			p.refused(t, run, c.code)
			require.EqualValues(t, 1, run.Epoch, "it was claimed once")
			if c.subject != "" {
				require.Equal(t, c.subject, fact[evidence.Failed](t, p.h, run).Subject)
			}
		})
	}
}

// A5, CASES 12: whether a readiness has expired is said by the database's clock, to which a worker's own may be days behind.
func TestReadinessExpiresByTheDatabasesClock(t *testing.T) {
	t.Parallel()
	p := open(t, deployment.Settings{}, harness.Options{})
	ref := p.format(t, "late")
	_, err := p.h.Store().Pool().Exec(t.Context(), `
		CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS
			$$ SELECT pg_catalog.clock_timestamp() + interval '8 days' $$;
		DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = public, pg_catalog', current_database()); END $$`)
	require.NoError(t, err)
	preview, err := p.Open(t, harness.Options{}).Preview(t.Context(), deployment.Request("late", ref, p.repo))
	require.NoError(t, err)
	require.ErrorContains(t, preview.Refusal, "expired")
}

// A4, A8, CASES 24: a runtime that the engine lacks is refused by its name.
func TestRuntimeThatTheEngineLacksIsRefusedByName(t *testing.T) {
	t.Parallel()
	d := deployment.New(t, deployment.Settings{})
	st := stack.Load(t).Private(t, stack.PartDocker)
	withoutRuntimes(t, filepath.Join(st.Data, "docker", "daemon.json"))
	st.Restart(t, stack.PartDocker)
	d.Stack, d.Config.Engine.Host = st, st.DockerHost()
	p := &place{Deployment: d, h: d.Open(t, harness.Options{}), engine: deployment.WatchEngine(t, st), repo: st.Repository(t, "place", files)}
	ref := p.format(t, "runsc", func(profile *profiles.Profile) {
		profile.Sandbox.Runtime, profile.Sandbox.Required = sandbox.RuntimeRunsc, nil
	})
	run := p.emit(t, "lacking", ref)
	deployment.Serve(t, p.h)
	run = p.wait(t, run)
	p.refused(t, run, evidence.CodeRuntimeMissing)
	require.Equal(t, sandbox.RuntimeRunsc, fact[evidence.Failed](t, p.h, run).Subject)

	readiness, err := p.h.CheckProfile(t.Context(), ref, harness.CheckOptions{Repository: p.repo.HTTPURL})
	require.NoError(t, err)
	require.Contains(t, broken(readiness), "runtime and image")
}

// withoutRuntimes takes the additional runtimes out of an engine's configuration.
func withoutRuntimes(t testing.TB, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	config := map[string]any{}
	require.NoError(t, json.Unmarshal(data, &config))
	require.Contains(t, config, "runtimes")
	delete(config, "runtimes")
	data, err = json.Marshal(config)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, data, 0o600))
}

// A2, A8, A9, A12: a request that names no profile, none exactly, one that is not published or one with another digest makes no run
// and no job, in the library as on the command line.
func TestRequestThatNamesNoPublishedProfileExactlyMakesNoRun(t *testing.T) {
	t.Parallel()
	p := open(t, deployment.Settings{}, harness.Options{})
	ref := p.format(t, "named")
	digest := "#sha256:" + strings.Repeat("0", 64)
	for name, c := range map[string]struct {
		profile string
		code    evidence.Code
	}{
		"absent":          {"", evidence.CodeProfileMalformed},
		"without digest":  {ref.Revision(), evidence.CodeProfileMalformed},
		"latest":          {"named@latest#" + ref.Digest, evidence.CodeProfileMalformed},
		"a range":         {"named@^1.0.0#" + ref.Digest, evidence.CodeProfileMalformed},
		"a wildcard":      {"named@1.*#" + ref.Digest, evidence.CodeProfileMalformed},
		"a short digest":  {ref.Revision() + "#sha256:00", evidence.CodeProfileMalformed},
		"not published":   {"nobody@1.0.0#" + ref.Digest, evidence.CodeProfileUnknown},
		"another version": {"named@1.0.1#" + ref.Digest, evidence.CodeProfileUnknown},
		"another digest":  {ref.Revision() + digest, evidence.CodeProfileDigestMismatch},
	} {
		request := deployment.Request(name, ref, p.repo)
		request.Profile = c.profile
		_, created, err := p.h.Emit(t.Context(), request, "")
		require.Equal(t, c.code, evidence.CodeOf(err), "%s: %v", name, err)
		require.False(t, created)

		file := p.definition(t, request)
		_, exit := p.Command(t, "emit", "-f", file, "--trigger-key", name)
		require.Equal(t, int(evidence.ExitRefused), exit, name)
	}
	require.Zero(t, p.count(t, `SELECT count(*) FROM ops_run`))
	require.Zero(t, p.count(t, `SELECT count(*) FROM river_job`))
	require.Zero(t, p.count(t, `SELECT count(*) FROM run_fact`))
}

// definition writes a request as the definition it could have come from.
func (p *place) definition(t testing.TB, r queue.Request) string {
	t.Helper()
	data, err := json.Marshal(map[string]any{
		"version": 1, "name": r.Definition, "repository": r.Repository, "base_ref": r.BaseRef, "target_ref": r.TargetRef, "task": r.Task,
		"profile": r.Profile, "grant": map[string]any{"paths": r.Grant.Paths, "symlinks": r.Grant.Symlinks},
	})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "definition.yaml") // JSON is YAML too
	require.NoError(t, os.WriteFile(file, data, 0o600))
	return file
}
