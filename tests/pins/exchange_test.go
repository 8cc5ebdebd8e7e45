package pins_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness"
	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/internal/canonical"
	"github.com/rein-aharness/harness/profiles"
	"github.com/rein-aharness/harness/queue"
	"github.com/rein-aharness/harness/repotx"
	"github.com/rein-aharness/harness/tests/deployment"
	"github.com/rein-aharness/harness/tests/stack"
)

// pin is one of the seven, and how it is exchanged in the contract and in the profile.
type pin struct {
	name     string
	contract func(*queue.Contract, substitutes)
	profile  func(*profiles.Profile)
}

// substitutes are what a forger would rather have: all of it exists and is ready.
type substitutes struct {
	profile *profiles.Profile
	ref     profiles.Ref
	repo    stack.RemoteRepo
}

var other = "sha256:" + strings.Repeat("ab", 32)

var pins = []pin{
	{
		"profile",
		func(c *queue.Contract, s substitutes) { name(c, s.profile) },
		func(p *profiles.Profile) { p.Limits.ChangeEntries++ },
	},
	{
		"rein",
		func(c *queue.Contract, _ substitutes) { c.Pins.Rein = other },
		func(p *profiles.Profile) { p.Rein.Argv = []string{"/usr/local/bin/gofumpt", "-w", "b.go"} },
	},
	{
		"model",
		func(c *queue.Contract, _ substitutes) { c.Pins.Model = other },
		func(p *profiles.Profile) { p.Model.Revision = "no-model@2.0.0" },
	},
	{
		"tools",
		func(c *queue.Contract, _ substitutes) { c.Pins.Tools = other },
		func(p *profiles.Profile) { p.Tools.Revision = "no-tools@2.0.0" },
	},
	{
		"sandbox",
		func(c *queue.Contract, _ substitutes) { c.Pins.Sandbox = other },
		func(p *profiles.Profile) { p.Sandbox.Required = nil },
	},
	{
		"credentials",
		func(c *queue.Contract, _ substitutes) { c.Pins.Credentials = other },
		func(p *profiles.Profile) { p.Publish.TTLSeconds-- },
	},
	{
		"repository",
		func(c *queue.Contract, s substitutes) {
			c.Request.Repository = s.repo.HTTPURL
			repository, err := repotx.Canonical(s.repo.HTTPURL)
			if err != nil {
				panic(err)
			}
			c.Pins.Repository = repository.ID
		},
		func(p *profiles.Profile) { p.Grant.Paths = []string{"**/*.go"} },
	},
}

// name makes a contract name a profile, with all its pins.
func name(c *queue.Contract, p *profiles.Profile) {
	ref, err := p.Ref()
	if err != nil {
		panic(err)
	}
	parts, err := p.Pins()
	if err != nil {
		panic(err)
	}
	c.Request.Profile = ref.String()
	c.Pins.Profile, c.Pins.Rein, c.Pins.Model, c.Pins.Tools = parts.Profile, parts.Rein, parts.Model, parts.Tools
	c.Pins.Sandbox, c.Pins.Credentials = parts.Sandbox, parts.Credentials
}

// moment is when the exchange is made, and what a run that it is found out in ends with.
type moment struct {
	name    string
	at      *harness.Progress // the step it is made in; nil: before the claim
	effect  evidence.Effect
	started int // sandboxes
}

var moments = []moment{
	{name: "before the claim", effect: evidence.EffectNotDispatched},
	{name: "after resolve", at: &harness.Progress{Stage: evidence.StageResolve, Done: true}, effect: evidence.EffectNotDispatched},
	{name: "before accept", at: &harness.Progress{Stage: evidence.StageAccept}, effect: evidence.EffectNotApplied, started: 1},
}

// forgery is what is exchanged where, and the code of the refusal.
type forgery struct {
	name string
	code evidence.Code
	make func(t testing.TB, f *scene, c *exchange)
}

var forgeries = []forgery{
	{"the contract's bytes", evidence.CodePinMismatch, func(t testing.TB, s *scene, c *exchange) {
		contract := c.contract(t)
		c.pin.contract(&contract, s.substitutes)
		document, err := canonical.Marshal(contract)
		require.NoError(t, err)
		s.Forge(t, `UPDATE ops_run SET contract = $2 WHERE id = $1`, c.run.ID, document)
	}},
	{"the contract with every digest and column", evidence.CodePinMismatch, func(t testing.TB, s *scene, c *exchange) {
		contract := c.contract(t)
		c.pin.contract(&contract, s.substitutes)
		s.forgeRow(t, c.run, contract)
	}},
	{"the profile's bytes", evidence.CodeProfileDigestMismatch, func(t testing.TB, s *scene, c *exchange) {
		forged := *c.profile
		c.pin.profile(&forged)
		content, err := forged.Canonical()
		require.NoError(t, err)
		s.Forge(t, `UPDATE profile_revision SET canonical = $2 WHERE name = $1`, forged.Name, content)
	}},
	{"the profile with its digest and readiness", evidence.CodeProfileDigestMismatch, func(t testing.TB, s *scene, c *exchange) {
		forged := *c.profile
		c.pin.profile(&forged)
		s.forgeProfile(t, &forged)
	}},
	{"contract and profile so that they agree", evidence.CodePinMismatch, func(t testing.TB, s *scene, c *exchange) {
		forged := *c.profile
		c.pin.profile(&forged)
		s.forgeProfile(t, &forged)
		contract := c.contract(t)
		name(&contract, &forged)
		s.forgeRow(t, c.run, contract)
	}},
}

// scene is the deployment in which all exchanges are made.
type scene struct {
	*deployment.Deployment
	substitutes
}

func (s *scene) forgeRow(t testing.TB, run queue.Run, c queue.Contract) {
	t.Helper()
	var err error
	c.RequestDigest, err = c.Request.Digest()
	require.NoError(t, err)
	document, err := canonical.Marshal(c)
	require.NoError(t, err)
	digest, err := c.Digest()
	require.NoError(t, err)
	ref, err := profiles.ParseRef(c.Request.Profile)
	require.NoError(t, err)
	s.Forge(t, `UPDATE ops_run SET contract = $2, contract_digest = $3, request_digest = $4, repository = $5, profile = $6,
		profile_digest = $7 WHERE id = $1`, run.ID, document, digest, c.RequestDigest, c.Pins.Repository, ref.Revision(), ref.Digest)
}

func (s *scene) forgeProfile(t testing.TB, p *profiles.Profile) {
	t.Helper()
	content, err := p.Canonical()
	require.NoError(t, err)
	digest, err := p.Digest()
	require.NoError(t, err)
	s.Forge(t, `UPDATE profile_revision SET canonical = $2, digest = $3 WHERE name = $1`, p.Name, content, digest)
	s.Forge(t, `INSERT INTO profile_readiness SELECT $1, $2, 'ready', 'forged', now(), now() + interval '1 hour', '[]'`,
		s.Config.Engine.Name, digest)
}

// exchange is one run that something is exchanged under.
type exchange struct {
	pin     pin
	moment  moment
	forgery forgery
	profile *profiles.Profile
	run     queue.Run
}

func (c *exchange) String() string {
	return c.pin.name + "/" + c.moment.name + "/" + c.forgery.name
}

// contract is the run's contract as it was emitted.
func (c *exchange) contract(t testing.TB) queue.Contract {
	t.Helper()
	contract, err := c.run.Contract()
	require.NoError(t, err)
	return contract
}

// watcher makes the exchanges at their moments; the run waits for it.
type watcher struct {
	mu    sync.Mutex
	steps map[harness.Progress]func()
}

func (w *watcher) on(run string, at harness.Progress, do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.steps[harness.Progress{Run: run, Stage: at.Stage, Done: at.Done}] = do
}

func (w *watcher) watch(p harness.Progress) {
	w.mu.Lock()
	do := w.steps[harness.Progress{Run: p.Run, Stage: p.Stage, Done: p.Done}]
	w.mu.Unlock()
	if do != nil {
		do()
	}
}

// exchanges are all of them: each pin, at each moment, each forgery.
func exchanges() []*exchange {
	var all []*exchange
	for _, p := range pins {
		for _, m := range moments {
			for _, f := range forgeries {
				all = append(all, &exchange{pin: p, moment: m, forgery: f})
			}
		}
	}
	return all
}

var files = map[string]string{
	".harness.yaml": deployment.Manifest, "a.go": "package a\n\nfunc  f() {\n\n}\n", "b.go": "package a\n\nfunc  g() {\n\n}\n",
}

var gofumpt = []string{"/usr/local/bin/gofumpt", "-l", "-w", "a.go"}

// A2, A3, A10, A11, A14: each of the seven pins is exchanged in the run's row, in the published profile, or in both so that they agree,
// at each of three moments. The run is refused; before its sandbox had started there is none, and the remote takes nothing.
func TestNothingThatWasPinnedCanBeExchanged(t *testing.T) {
	t.Parallel()
	d := deployment.New(t, deployment.Settings{Concurrency: 4})
	watching := &watcher{steps: map[harness.Progress]func(){}}
	h := d.Open(t, harness.Options{Watch: watching.watch})
	engine := deployment.WatchEngine(t, d.Stack)
	repo := d.Stack.Repository(t, "pins", files)
	s := &scene{Deployment: d, substitutes: substitutes{
		profile: d.Profile(t, "substitute", "codemod", gofumpt...), repo: d.Stack.Repository(t, "substitute", files),
	}}
	s.ref = d.Publish(t, h, s.profile, repo)
	require.Equal(t, repo.Baseline, s.repo.Baseline, "the substitute must be as good as the original")

	all := exchanges()
	for i, c := range all {
		c.profile = d.Profile(t, fmt.Sprintf("pinned-%d", i), "codemod", gofumpt...)
		request := deployment.Request(c.String(), d.Vouch(t, h, c.profile), repo)
		request.TargetRef = fmt.Sprintf("refs/heads/run-%d", i)
		var err error
		c.run, _, err = h.Emit(t.Context(), request, "")
		require.NoError(t, err)
		exchange := func() { c.forgery.make(t, s, c) }
		if c.moment.at == nil {
			exchange()
			continue
		}
		watching.on(c.run.ID, *c.moment.at, exchange)
	}
	control := deployment.Request("control", s.ref, repo)
	control.TargetRef = "refs/heads/control"
	untouched, _, err := h.Emit(t.Context(), control, "")
	require.NoError(t, err)

	stop := deployment.Serve(t, h)
	for _, c := range all {
		c.run, err = h.Wait(t.Context(), c.run.ID)
		require.NoError(t, err)
	}
	untouched, err = h.Wait(t.Context(), untouched.ID)
	require.NoError(t, err)
	stop()

	require.Equal(t, evidence.StateCompleted, untouched.State, "what nobody touched lands")
	refs := repo.Refs(t)
	for _, c := range all {
		t.Run(c.String(), func(t *testing.T) {
			require.Equal(t, evidence.StateFailed, c.run.State)
			require.Equal(t, c.forgery.code, c.run.Code, "%s", c.run.FailedStage)
			if c.moment.effect == evidence.EffectNotApplied { // there was a change already
				require.Equal(t, evidence.OutcomeNotApplied, c.run.Disposition)
			} else {
				require.Equal(t, evidence.OutcomeRefused, c.run.Disposition)
			}
			require.Equal(t, c.moment.effect, c.run.Effect)
			require.Equal(t, c.moment.started, engine.Created(t, c.run.ID), "sandboxes")
			fence, err := repotx.FenceRef(c.run.ID)
			require.NoError(t, err)
			if c.moment.started == 0 {
				require.NotContains(t, refs, fence)
			} else {
				require.Equal(t, repotx.TombstoneValue(c.run.ID, c.run.Epoch), refs[fence])
			}
		})
	}
	require.Equal(t, repo.Baseline, refs["refs/heads/main"])
	for ref := range refs {
		require.NotContains(t, ref, "refs/heads/run-", "a run's branch")
	}
	require.Equal(t, map[string]string{"refs/heads/main": s.repo.Baseline}, s.repo.Refs(t), "the other repository")
}

// A3, A37, B32: a run whose worker died, and whose row then says another repository, is not settled from that one: it waits for an
// operator, and the other repository is not touched. With the row as it was it is settled.
func TestLostRunIsNotSettledFromAnotherRepository(t *testing.T) {
	t.Parallel()
	p := open(t, deployment.Settings{TTLSeconds: 3, HeartbeatSeconds: 1}, harness.Options{})
	s := &scene{Deployment: p.Deployment, substitutes: substitutes{repo: p.Stack.Repository(t, "substitute", files)}}
	c := &exchange{pin: pins[len(pins)-1], run: p.emit(t, "lost", p.format(t, "lost"))}
	require.Equal(t, "repository", c.pin.name)
	killed := p.Worker(t, "killed", deployment.WorkerSettings{Failpoints: "session.after=kill"})
	killed.Ended(t, time.Minute)
	forged, original := c.contract(t), c.contract(t)
	c.pin.contract(&forged, s.substitutes)
	s.forgeRow(t, c.run, forged)

	stop := deployment.Serve(t, p.h)
	run := p.wait(t, c.run)
	stop()
	require.Equal(t, evidence.StateWaitingExternal, run.State, "%s", run.Code)
	require.Equal(t, evidence.EffectUnknown, run.Effect)
	require.Equal(t, "record_contradicted", run.WaitReason)
	require.Equal(t, map[string]string{trunk: s.repo.Baseline}, s.repo.Refs(t))

	s.forgeRow(t, c.run, original)
	require.NoError(t, p.h.ReconcileNow(t.Context(), run.ID))
	run = p.wait(t, run)
	require.Equal(t, evidence.StateFailed, run.State)
	require.Equal(t, evidence.CodeWorkerLost, run.Code)
	require.Equal(t, evidence.EffectNotApplied, run.Effect)
	deployment.Verify(t, p.h, run.ID)
}
