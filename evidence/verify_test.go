package evidence_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha1" //nolint:gosec // git's own object hash
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/internal/canonical"
)

// keyFrom makes a key that is the same in every run of the tests.
func keyFrom(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
}

func signerFrom(t testing.TB, seed byte) *evidence.Signer {
	t.Helper()
	s, err := evidence.NewSigner(keyFrom(seed))
	require.NoError(t, err)
	return s
}

func trusting(t testing.TB, signers ...*evidence.Signer) evidence.Trust {
	t.Helper()
	var keys []evidence.TrustedKey
	for _, s := range signers {
		keys = append(keys, evidence.TrustedKey{KeyID: s.KeyID(), Public: s.Public(), NotBefore: start.Add(-time.Hour)})
	}
	trust, err := evidence.NewTrust(keys...)
	require.NoError(t, err)
	return trust
}

func sign(t testing.TB, s *evidence.Signer, facts []evidence.Fact) []byte {
	t.Helper()
	statement, err := evidence.BuildStatement(facts)
	require.NoError(t, err)
	envelope, err := s.Sign(statement)
	require.NoError(t, err)
	return envelope
}

// fullRecord is a record with every part, all of them consistent.
func fullRecord(t testing.TB, signer *evidence.Signer) evidence.Record {
	t.Helper()
	rec := evidence.Record{
		Run: runID, Profile: []byte(`{"name":"codemod","version":"1.0.0"}`), Contract: []byte(`{"definition":"nightly"}`),
		Pack: []byte("PACK and its bytes"),
	}
	profileDigest, err := canonical.DigestBytes(evidence.DomainProfile, rec.Profile)
	require.NoError(t, err)
	contractDigest, err := canonical.DigestBytes(evidence.DomainContract, rec.Contract)
	require.NoError(t, err)
	rec.Commit = []byte("tree " + commitOf("d") + "\nparent " + commitOf("a") + "\nauthor h <h@example.org> 1767323045 +0000\n" +
		"committer h <h@example.org> 1767323045 +0000\n\nFormat\n\nHarness-Run: " + runID + "\nHarness-Transaction: tx-1\n" +
		"Harness-Profile: codemod@1.0.0#" + profileDigest + "\n")
	packSum := sha256.Sum256(rec.Pack)

	steps := goodSteps()
	for i := range steps {
		switch b := steps[i].body.(type) {
		case evidence.Emitted:
			b.ProfileDigest, b.ContractDigest = profileDigest, contractDigest
			steps[i].body = b
		case evidence.Resolved:
			b.ProfileDigest = profileDigest
			steps[i].body = b
		case evidence.Intended:
			h := sha1.New() //nolint:gosec // git's own object hash
			fmt.Fprintf(h, "commit %d\x00%s", len(rec.Commit), rec.Commit)
			b.Commit, b.PackDigest = hex.EncodeToString(h.Sum(nil)), "sha256:"+hex.EncodeToString(packSum[:])
			steps[i].body = b
		}
	}
	c, err := record(steps)
	require.NoError(t, err)
	rec.Facts = c.Facts()
	rec.Envelope = sign(t, signer, rec.Facts)
	return rec
}

func requireFails(t require.TestingT, report evidence.Report, name, detail string) {
	require.False(t, report.OK())
	require.Equal(t, evidence.ResultFail, report.Result(name), "%+v", report)
	for _, c := range report.Failed() {
		if c.Name == name {
			require.Contains(t, c.Detail, detail)
		}
	}
}

// A20, A35
func TestAGoodRecordPassesEveryCheck(t *testing.T) {
	t.Parallel()
	signer := signerFrom(t, 1)
	report := evidence.VerifyOffline(fullRecord(t, signer), trusting(t, signer))
	require.True(t, report.OK())
	var names []string
	for _, c := range report.Checks {
		require.Equal(t, evidence.ResultPass, c.Result, c)
		require.Equal(t, evidence.ScopeOffline, c.Scope)
		require.NotEmpty(t, c.Detail)
		names = append(names, c.Name)
	}
	require.Equal(t, []string{
		evidence.CheckChain, evidence.CheckEnvelope, evidence.CheckSignature, evidence.CheckKey, evidence.CheckStatement, evidence.CheckPins,
		evidence.CheckIsolation, evidence.CheckContract, evidence.CheckProfile, evidence.CheckCommit, evidence.CheckPack,
	}, names)
}

// B45
func TestWhatIsNotSuppliedIsNotEvaluated(t *testing.T) {
	t.Parallel()
	signer := signerFrom(t, 1)
	rec := fullRecord(t, signer)
	rec.Profile, rec.Contract, rec.Commit, rec.Pack = nil, nil, nil, nil
	report := evidence.VerifyOffline(rec, trusting(t, signer))
	require.True(t, report.OK())
	for _, name := range []string{evidence.CheckContract, evidence.CheckProfile, evidence.CheckCommit, evidence.CheckPack, "never made"} {
		require.Equal(t, evidence.ResultNotEvaluated, report.Result(name))
	}
}

// Any changed byte of any stored fact is found, and the fact is named. A20
func TestAChangedByteInAnyFactIsFound(t *testing.T) {
	t.Parallel()
	signer := signerFrom(t, 1)
	trust := trusting(t, signer)
	rec := fullRecord(t, signer)
	rapid.Check(t, func(t *rapid.T) {
		facts := slices.Clone(rec.Facts)
		i := rapid.IntRange(0, len(facts)-1).Draw(t, "fact")
		f := &facts[i]
		flip := func(s string) string {
			b := []byte(s)
			if len(b) == 0 {
				return "x"
			}
			b[rapid.IntRange(0, len(b)-1).Draw(t, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
			return string(b)
		}
		switch rapid.SampledFrom([]string{"run", "seq", "epoch", "stage", "kind", "source", "at", "body", "prev", "digest"}).Draw(t, "field") {
		case "run":
			f.Run = flip(f.Run)
		case "seq":
			f.Seq += rapid.SampledFrom([]int{-1, 1, 1 << 40}).Draw(t, "by")
		case "epoch":
			f.Epoch += rapid.SampledFrom([]int64{-1, 1, 1 << 40, 1 << 60}).Draw(t, "by")
		case "stage":
			f.Stage = evidence.Stage(flip(string(f.Stage)))
		case "kind":
			f.Kind = evidence.Kind(flip(string(f.Kind)))
		case "source":
			f.Source = evidence.Source(flip(string(f.Source)))
		case "at":
			f.At = flip(f.At)
		case "body":
			f.Body = []byte(flip(string(f.Body)))
		case "prev":
			f.Prev = flip(f.Prev)
		case "digest":
			f.Digest = flip(f.Digest)
		}
		changed := rec
		changed.Facts = facts
		requireFails(t, evidence.VerifyOffline(changed, trust), evidence.CheckChain, fmt.Sprintf("fact %d", i+1))
	})
}

// CASES 42
func TestMissingAndMovedFactsAreFound(t *testing.T) {
	t.Parallel()
	signer := signerFrom(t, 1)
	trust := trusting(t, signer)
	rec := fullRecord(t, signer)
	with := func(facts []evidence.Fact) evidence.Report {
		changed := rec
		changed.Facts = facts
		return evidence.VerifyOffline(changed, trust)
	}
	requireFails(t, with(rec.Facts[:len(rec.Facts)-1]), evidence.CheckStatement, "covers 13 facts, here are 12")
	require.Equal(t, evidence.ResultPass, with(rec.Facts[:len(rec.Facts)-1]).Result(evidence.CheckChain))
	requireFails(t, with(rec.Facts[1:]), evidence.CheckChain, "fact 1")
	requireFails(t, with(nil), evidence.CheckChain, "no facts")
	for i := 1; i < len(rec.Facts)-1; i++ {
		requireFails(t, with(slices.Delete(slices.Clone(rec.Facts), i, i+1)), evidence.CheckChain, fmt.Sprintf("fact %d", i+1))
		swapped := slices.Clone(rec.Facts)
		swapped[i], swapped[i+1] = swapped[i+1], swapped[i]
		requireFails(t, with(swapped), evidence.CheckChain, fmt.Sprintf("fact %d", i+1))
		doubled := slices.Insert(slices.Clone(rec.Facts), i, rec.Facts[i])
		requireFails(t, with(doubled), evidence.CheckChain, fmt.Sprintf("fact %d", i+2))
	}
	foreign := rec
	foreign.Run = "another"
	requireFails(t, evidence.VerifyOffline(foreign, trust), evidence.CheckChain, "another run")
}

// Whoever owns the database can recompute the chain and still not the signature. A20
func TestEditedFactsWithARecomputedChainAreFound(t *testing.T) {
	t.Parallel()
	signer := signerFrom(t, 1)
	trust := trusting(t, signer)
	rec := fullRecord(t, signer)

	steps := goodSteps()
	emitted := steps[0].body.(evidence.Emitted)
	emitted.Repository = "git.example/other"
	steps[0].body = emitted
	c, err := record(steps)
	require.NoError(t, err)
	edited := rec
	edited.Facts = c.Facts()
	report := evidence.VerifyOffline(edited, trust)
	require.Equal(t, evidence.ResultPass, report.Result(evidence.CheckChain))
	require.Equal(t, evidence.ResultPass, report.Result(evidence.CheckSignature))
	head, _ := c.Head()
	requireFails(t, report, evidence.CheckStatement, head)

	// And signed again by a key that nobody trusts.
	edited.Envelope = sign(t, signerFrom(t, 2), edited.Facts)
	report = evidence.VerifyOffline(edited, trust)
	require.Equal(t, evidence.ResultPass, report.Result(evidence.CheckStatement))
	requireFails(t, report, evidence.CheckSignature, signerFrom(t, 2).KeyID())
	require.Equal(t, evidence.ResultNotEvaluated, report.Result(evidence.CheckKey))
}

func TestAStatementThatSaysMoreThanTheFactsIsFound(t *testing.T) {
	t.Parallel()
	signer := signerFrom(t, 1)
	trust := trusting(t, signer)
	rec := fullRecord(t, signer)
	for name, lie := range map[string]func(*evidence.Statement){
		"proof":          func(s *evidence.Statement) { s.Predicate.Proof = true },
		"commit":         func(s *evidence.Statement) { s.Predicate.Commit = commitOf("0") },
		"subject":        func(s *evidence.Statement) { s.Subject[0].Digest["gitCommit"] = commitOf("0") },
		"not_enforced":   func(s *evidence.Statement) { s.Predicate.NotEnforced = []string{"pids"} },
		"pins":           func(s *evidence.Statement) { s.Predicate.Pins = nil },
		"emitted_at":     func(s *evidence.Statement) { s.Predicate.EmittedAt = "" },
		"profile_digest": func(s *evidence.Statement) { s.Predicate.ProfileDigest = digestOf("0") },
	} {
		statement, err := evidence.BuildStatement(rec.Facts)
		require.NoError(t, err)
		lie(&statement)
		lying := rec
		lying.Envelope, err = signer.Sign(statement)
		require.NoError(t, err)
		requireFails(t, evidence.VerifyOffline(lying, trust), evidence.CheckStatement, name)
	}
	other, err := evidence.BuildStatement(rec.Facts)
	require.NoError(t, err)
	other.PredicateType = "https://example.org/other"
	lying := rec
	lying.Envelope, err = signer.Sign(other)
	require.NoError(t, err)
	requireFails(t, evidence.VerifyOffline(lying, trust), evidence.CheckEnvelope, "another type")
}

// Any changed byte of the envelope is found. A20
func TestAChangedByteInTheEnvelopeIsFound(t *testing.T) {
	t.Parallel()
	signer := signerFrom(t, 1)
	trust := trusting(t, signer)
	rec := fullRecord(t, signer)
	for i := 0; i < len(rec.Envelope); i += 3 {
		changed := rec
		changed.Envelope = slices.Clone(rec.Envelope)
		changed.Envelope[i] ^= 1
		require.False(t, evidence.VerifyOffline(changed, trust).OK(), "byte %d", i)
	}
	changed := rec
	changed.Envelope = append(slices.Clone(rec.Envelope), '\n')
	requireFails(t, evidence.VerifyOffline(changed, trust), evidence.CheckEnvelope, "canonical")
	changed.Envelope = nil
	requireFails(t, evidence.VerifyOffline(changed, trust), evidence.CheckEnvelope, "no signed statement")
	require.Equal(t, evidence.ResultNotEvaluated, evidence.VerifyOffline(changed, trust).Result(evidence.CheckStatement))
}

// A10, A20
func TestReplacedDocumentsAreFound(t *testing.T) {
	t.Parallel()
	signer := signerFrom(t, 1)
	trust := trusting(t, signer)
	rec := fullRecord(t, signer)
	with := func(edit func(*evidence.Record)) evidence.Report {
		changed := rec
		edit(&changed)
		return evidence.VerifyOffline(changed, trust)
	}
	requireFails(t, with(func(r *evidence.Record) { r.Profile = []byte(`{"name":"codemod","version":"1.0.1"}`) }), evidence.CheckProfile, "its digest is")
	requireFails(t, with(func(r *evidence.Record) { r.Profile = append([]byte(" "), r.Profile...) }), evidence.CheckProfile, "canonical")
	requireFails(t, with(func(r *evidence.Record) { r.Contract = r.Profile }), evidence.CheckContract, "its digest is")
	requireFails(t, with(func(r *evidence.Record) { r.Pack = append([]byte("x"), r.Pack...) }), evidence.CheckPack, "its digest is")
	requireFails(t, with(func(r *evidence.Record) { r.Commit = append(slices.Clone(r.Commit), 'x') }), evidence.CheckCommit, "its hash is")
}

// withCommit is a good run whose intended commit has this content.
func withCommit(t *testing.T, content string) evidence.Record {
	t.Helper()
	steps := goodSteps()
	for i := range steps {
		if b, ok := steps[i].body.(evidence.Intended); ok {
			h := sha1.New() //nolint:gosec // git's own object hash
			fmt.Fprintf(h, "commit %d\x00%s", len(content), content)
			b.Commit = hex.EncodeToString(h.Sum(nil))
			steps[i].body = b
		}
	}
	c, err := record(steps)
	require.NoError(t, err)
	return evidence.Record{Run: runID, Facts: c.Facts(), Commit: []byte(content), Envelope: sign(t, signerFrom(t, 1), c.Facts())}
}

// A35
func TestACommitThatIsNotWhatWasIntendedIsFound(t *testing.T) {
	t.Parallel()
	trust := trusting(t, signerFrom(t, 1))
	head := "tree " + commitOf("d") + "\nparent " + commitOf("a") + "\n"
	trailers := "\n\nm\n\nHarness-Run: " + runID + "\nHarness-Transaction: tx-1\nHarness-Profile: codemod@1.0.0#" + digestOf("4") + "\n"
	require.True(t, evidence.VerifyOffline(withCommit(t, head+"author a"+trailers), trust).OK())
	for want, content := range map[string]string{
		"tree":                         "tree " + commitOf("e") + "\nparent " + commitOf("a") + "\nauthor a" + trailers,
		"only parent":                  head + "parent " + commitOf("b") + "\nauthor a" + trailers,
		"no message":                   head,
		"trailer Harness-Run":          head + "author a" + strings.ReplaceAll(trailers, runID, "x"),
		"trailer Harness-Transaction":  head + "author a" + strings.ReplaceAll(trailers, "tx-1", "x"),
		"trailer Harness-Profile":      head + "author a" + strings.ReplaceAll(trailers, digestOf("4"), "x"),
		"Harness-Run is not":           head + "author a" + trailers + "\nanother last paragraph\n",
		"Harness-Run is not \"":        head + "author a" + trailers + "Harness-Run: other\n",
		"is not the baseline " + "aaa": "tree " + commitOf("d") + "\nauthor a" + trailers,
	} {
		requireFails(t, evidence.VerifyOffline(withCommit(t, content), trust), evidence.CheckCommit, want)
	}
}

// A3
func TestPinsExchangedOnTheWayAreFound(t *testing.T) {
	t.Parallel()
	signer := signerFrom(t, 1)
	for name, edit := range map[string]func(*step){
		"profile digest": func(s *step) {
			if b, ok := s.body.(evidence.Resolved); ok {
				b.ProfileDigest = digestOf("0")
				s.body = b
			}
		},
		"baseline": func(s *step) {
			if b, ok := s.body.(evidence.Intended); ok {
				b.Baseline = commitOf("0")
				s.body = b
			}
		},
		"target ref": func(s *step) {
			if b, ok := s.body.(evidence.Intended); ok {
				b.TargetRef = "refs/heads/other"
				s.body = b
			}
		},
		"fence ref": func(s *step) {
			if b, ok := s.body.(evidence.Intended); ok {
				b.FenceRef = "refs/harness/fence/other"
				s.body = b
			}
		},
	} {
		steps := goodSteps()
		for i := range steps {
			edit(&steps[i])
		}
		c, err := record(steps)
		require.NoError(t, err)
		rec := evidence.Record{Run: runID, Facts: c.Facts(), Envelope: sign(t, signer, c.Facts())}
		requireFails(t, evidence.VerifyOffline(rec, trusting(t, signer)), evidence.CheckPins, name)
	}
}

// A22, A24
func TestAPostureThatWasNotObservedIsFoundUnlessLabelled(t *testing.T) {
	t.Parallel()
	signer := signerFrom(t, 1)
	verify := func(s evidence.Sandboxed) evidence.Report {
		steps := goodSteps()
		steps[6].body = s
		c, err := record(steps)
		require.NoError(t, err)
		return evidence.VerifyOffline(
			evidence.Record{Run: runID, Facts: c.Facts(), Envelope: sign(t, signer, c.Facts())}, trusting(t, signer))
	}
	s := goodSteps()[6].body.(evidence.Sandboxed)
	s.Declared = map[string]string{"network": "none", "pids": "20"}
	requireFails(t, verify(s), evidence.CheckIsolation, "pids")
	s.Observed = map[string]string{"network": "none", "pids": "not_enforced"}
	requireFails(t, verify(s), evidence.CheckIsolation, "pids")
	s.NotEnforced = []string{"pids"}
	report := verify(s)
	require.True(t, report.OK())
	for _, c := range report.Checks {
		if c.Name == evidence.CheckStatement {
			require.Contains(t, c.Detail, "limits not enforced")
		}
	}
}

// What the owning host supplies after the end is chained, shown as unsigned, and covered by a further signature.
func TestALaterTeardownIsShownAsUnsigned(t *testing.T) {
	t.Parallel()
	signer := signerFrom(t, 1)
	trust := trusting(t, signer)
	observed := evidence.SourceObserved
	steps := append(goodSteps()[:7],
		step{2, evidence.StageReconcile, observed, evidence.Claimed{WorkerID: "w2", Owner: "w2/n"}},
		step{2, evidence.StageReconcile, evidence.SourceNotObserved, evidence.TornDown{}},
		step{2, evidence.StageReconcile, observed, evidence.Settled{By: "reconciler", Effect: evidence.EffectNotApplied, Reason: "tombstone"}},
		step{2, evidence.StageClose, observed, evidence.Closed{
			State: evidence.StateFailed, Effect: evidence.EffectNotApplied, Stage: evidence.StageReconcile, Code: evidence.CodeWorkerLost,
			Disposition: evidence.OutcomeFailed,
		}})
	c, err := record(steps)
	require.NoError(t, err)
	rec := evidence.Record{Run: runID, Facts: c.Facts(), Envelope: sign(t, signer, c.Facts())}
	report := evidence.VerifyOffline(rec, trust)
	require.True(t, report.OK())
	require.Contains(t, fmt.Sprint(report.Checks), "teardown not observed")

	statement, err := evidence.BuildStatement(rec.Facts)
	require.NoError(t, err)
	require.Equal(t, "run/"+runID, statement.Subject[0].Name)
	require.Equal(t, strings.TrimPrefix(statement.Predicate.Head, "sha256:"), statement.Subject[0].Digest["sha256"])

	_, err = c.Append(start.Add(time.Hour), 2, evidence.StageTeardown, observed, evidence.TornDown{ContainerGone: true, VolumesGone: true})
	require.NoError(t, err)
	rec.Facts = c.Facts()
	report = evidence.VerifyOffline(rec, trust)
	require.True(t, report.OK())
	require.Equal(t, evidence.ResultNotEvaluated, report.Result(evidence.CheckLater))
	require.Contains(t, fmt.Sprint(report.Checks), "1 facts were supplied after the signature")

	rec.Envelope = sign(t, signer, rec.Facts)
	report = evidence.VerifyOffline(rec, trust)
	require.True(t, report.OK())
	require.NotContains(t, fmt.Sprint(report.Checks), "teardown not observed")
}

func TestNoStatementFollowsFromARunThatIsNotClosed(t *testing.T) {
	t.Parallel()
	facts := goodFacts(t)
	_, err := evidence.BuildStatement(facts[:len(facts)-1])
	require.ErrorIs(t, err, evidence.ErrOrder)
	_, err = evidence.BuildStatement(nil)
	require.ErrorIs(t, err, evidence.ErrChainEmpty)
}

// Remote checks are added by whoever can see the remote; only a contradiction speaks against the run.
func TestLaterLegitimateRunsDoNotInvalidateAReport(t *testing.T) {
	t.Parallel()
	signer := signerFrom(t, 1)
	report := evidence.VerifyOffline(fullRecord(t, signer), trusting(t, signer))
	report.Add(evidence.Check{Name: "branch", Scope: evidence.ScopeRemote, Result: evidence.ResultSuperseded})
	report.Add(evidence.Check{Name: "fence", Scope: evidence.ScopeRemote, Result: evidence.ResultExpired, Detail: "\x1b[2J"})
	require.True(t, report.OK())
	require.Equal(t, `\u001b[2J`, report.Checks[len(report.Checks)-1].Detail)
	report.Add(evidence.Check{Name: "branch", Scope: evidence.ScopeRemote, Result: evidence.ResultFail})
	require.False(t, report.OK())
	require.False(t, evidence.Report{}.OK(), "nothing evaluated is nothing shown")
}
