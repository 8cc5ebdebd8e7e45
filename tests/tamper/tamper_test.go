package tamper_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness"
	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/profiles"
	"github.com/rein-aharness/harness/queue"
	"github.com/rein-aharness/harness/repotx"
	"github.com/rein-aharness/harness/tests/deployment"
	"github.com/rein-aharness/harness/tests/stack"
)

const trunk = "refs/heads/main"

// landed is a run that landed, and where.
type landed struct {
	*deployment.Deployment
	h       *harness.Harness
	repo    stack.RemoteRepo
	profile *profiles.Profile
	ref     profiles.Ref
	run     queue.Run
	facts   []evidence.Fact
	trust   evidence.Trust
}

func land(t *testing.T) *landed {
	t.Helper()
	d := deployment.New(t, deployment.Settings{})
	l := &landed{Deployment: d, h: d.Open(t, harness.Options{})}
	l.repo = d.Stack.Repository(t, "tamper", map[string]string{
		".harness.yaml": deployment.Manifest, "a.go": "package a\n\nfunc  f() {\n\n}\n", "b.go": "package a\n\nfunc  g() {\n\n}\n",
	})
	l.profile = d.Profile(t, "formatting", "codemod", "/usr/local/bin/gofumpt", "-l", "-w", "a.go")
	l.ref = d.Vouch(t, l.h, l.profile)
	l.run = deployment.Finish(t, l.h, deployment.Request("landed", l.ref, l.repo))
	require.Equal(t, evidence.EffectConfirmed, l.run.Effect, "%s %s", l.run.FailedStage, l.run.Code)
	var err error
	l.facts, err = l.h.Store().Facts(t.Context(), l.run.ID)
	require.NoError(t, err)
	l.trust, err = l.h.Trust()
	require.NoError(t, err)
	l.verifies(t)
	return l
}

func (l *landed) verify(t testing.TB, remote bool) evidence.Report {
	t.Helper()
	report, err := l.h.Verify(t.Context(), l.run.ID, harness.VerifyOptions{Trust: l.trust, Remote: remote})
	require.NoError(t, err)
	return report
}

// verifies requires that the run verifies, in the library and on the command line.
func (l *landed) verifies(t testing.TB) evidence.Report {
	t.Helper()
	report := deployment.Verify(t, l.h, l.run.ID)
	out, code := l.Command(t, "evidence", "verify", l.run.ID)
	require.Zero(t, code, out)
	return report
}

// fails requires that the run does not verify, that these checks fail, and that the command line says so and what.
func (l *landed) fails(t testing.TB, says string, checks ...string) {
	t.Helper()
	report := l.verify(t, true)
	require.False(t, report.OK())
	for _, name := range checks {
		require.Equal(t, evidence.ResultFail, report.Result(name), "%s: %+v", name, report.Checks)
	}
	require.Contains(t, fmt.Sprint(report.Failed()), says)
	out, code := l.Command(t, "evidence", "verify", l.run.ID)
	require.Equal(t, int(evidence.ExitFailed), code, out)
	for _, name := range checks {
		require.Contains(t, out, name)
	}
	require.Contains(t, out, says)
}

// stored is a fact as it is stored.
func stored(t testing.TB, f evidence.Fact) []byte {
	t.Helper()
	data, err := f.Encode()
	require.NoError(t, err)
	return data
}

func (l *landed) store(t testing.TB, seq int, data []byte) {
	t.Helper()
	l.Forge(t, `UPDATE run_fact SET bytes = $3 WHERE run_id = $1 AND seq = $2`, l.run.ID, seq, data)
}

// rewrite puts other facts in the place of the run's: each row its bytes and its digest.
func (l *landed) rewrite(t testing.TB, facts []evidence.Fact) {
	t.Helper()
	require.Len(t, facts, len(l.facts))
	for _, f := range facts {
		l.Forge(t, `UPDATE run_fact SET bytes = $3, digest = $4 WHERE run_id = $1 AND seq = $2`, l.run.ID, f.Seq, stored(t, f), f.Digest)
	}
}

func (l *landed) sign(t testing.TB, statement []byte) {
	t.Helper()
	l.Forge(t, `UPDATE ops_run SET statement = $2 WHERE id = $1`, l.run.ID, statement)
}

// stride is how far apart the bytes are that are changed in a fact, so that every kind of place is met.
const stride = 61

// A20, A35: one changed byte in any fact is found, and the fact is named.
func TestAChangedByteInAnyFactIsFoundAndNamed(t *testing.T) {
	t.Parallel()
	l := land(t)
	for _, f := range l.facts {
		original := stored(t, f)
		for at := f.Seq % stride; at < len(original); at += stride {
			changed := bytes.Clone(original)
			changed[at] ^= 1
			l.store(t, f.Seq, changed)
			report := l.verify(t, false)
			require.False(t, report.OK(), "byte %d of fact %d", at, f.Seq)
			failed := report.Failed()
			require.Equal(t, evidence.CheckChain, failed[0].Name)
			require.Contains(t, failed[0].Detail, fmt.Sprintf("fact %d ", f.Seq), "byte %d", at)
		}
		l.fails(t, fmt.Sprintf("fact %d ", f.Seq), evidence.CheckChain)
		l.store(t, f.Seq, original)

		l.Forge(t, `UPDATE run_fact SET digest = $3 WHERE run_id = $1 AND seq = $2`, l.run.ID, f.Seq, "sha256:forged")
		report := l.verify(t, false)
		require.Contains(t, fmt.Sprint(report.Failed()), fmt.Sprintf("fact %d ", f.Seq))
		l.Forge(t, `UPDATE run_fact SET digest = $3 WHERE run_id = $1 AND seq = $2`, l.run.ID, f.Seq, f.Digest)
	}
	l.verifies(t)
}

// recomputed makes the chain anew with one body exchanged: every digest and link of it is right.
func (l *landed) recomputed(t testing.TB, exchange func(evidence.Body) evidence.Body) []evidence.Fact {
	t.Helper()
	chain := evidence.NewChain(l.run.ID)
	for _, f := range l.facts {
		body, err := f.Open()
		require.NoError(t, err)
		at, err := evidence.ParseTime(f.At)
		require.NoError(t, err)
		_, err = chain.Append(at, f.Epoch, f.Stage, f.Source, exchange(body))
		require.NoError(t, err)
	}
	require.NoError(t, evidence.VerifyChain(l.run.ID, chain.Facts()))
	return chain.Facts()
}

// A20, A35, A48, CASES 42: an end that is cut off, facts that are edited with the chain computed anew, and a signature of another
// key, with its own name or the trusted one's, are each found.
func TestACutEndAnEditedChainAndAnotherKeyAreFound(t *testing.T) {
	t.Parallel()
	l := land(t)
	last := l.facts[len(l.facts)-1]
	l.Forge(t, `DELETE FROM run_fact WHERE run_id = $1 AND seq = $2`, l.run.ID, last.Seq)
	l.fails(t, "the end is missing", evidence.CheckStatement, harness.CheckRow)
	l.Forge(t, `INSERT INTO run_fact (run_id, seq, digest, bytes) VALUES ($1, $2, $3, $4)`, l.run.ID, last.Seq, last.Digest, stored(t, last))
	l.verifies(t)

	edited := l.recomputed(t, func(b evidence.Body) evidence.Body {
		if ended, ok := b.(evidence.SessionEnded); ok {
			ended.DurationMillis++
			return ended
		}
		return b
	})
	l.rewrite(t, edited)
	l.fails(t, "these end in", evidence.CheckStatement)

	_, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	forger, err := evidence.NewSigner(private)
	require.NoError(t, err)
	for name, facts := range map[string][]evidence.Fact{"edited": edited, "as they were": l.facts} {
		l.rewrite(t, facts)
		statement, err := evidence.BuildStatement(facts)
		require.NoError(t, err)
		envelope, err := forger.Sign(statement)
		require.NoError(t, err)
		l.sign(t, envelope)
		l.fails(t, "the trust file has no key "+forger.KeyID(), evidence.CheckSignature)
		require.Equal(t, evidence.ResultPass, l.verify(t, false).Result(evidence.CheckStatement), "%s: only the key betrays it", name)
		l.sign(t, bytes.ReplaceAll(envelope, []byte(forger.KeyID()), []byte(keyOf(t, l.run.Statement))))
		l.fails(t, "the signature is not key", evidence.CheckSignature)
	}
	l.rewrite(t, l.facts)
	l.sign(t, []byte{})
	l.fails(t, "no signed statement", evidence.CheckEnvelope)
	l.sign(t, l.run.Statement)
	l.verifies(t)

	// A key that was not valid any more when the run closed.
	data, err := os.ReadFile(l.Config.Signing.TrustFile)
	require.NoError(t, err)
	retired := filepath.Join(t.TempDir(), "trust.yaml")
	require.NoError(t, os.WriteFile(retired, append(data, "  not_after: \"2020-02-01T00:00:00Z\"\n"...), 0o600))
	out, code := l.Command(t, "evidence", "verify", l.run.ID, "--trust", retired)
	require.Equal(t, int(evidence.ExitFailed), code, out)
	require.Contains(t, out, "when the key was not valid")
}

func keyOf(t testing.TB, envelope []byte) string {
	t.Helper()
	var e struct{ Signatures []struct{ KeyID string } }
	require.NoError(t, json.Unmarshal(envelope, &e))
	require.Len(t, e.Signatures, 1)
	return e.Signatures[0].KeyID
}

// A3, A10, A20: a profile that is replaced or gone, a contract, a pack and a row that say otherwise are each found and named.
func TestReplacedDocumentsAndRowsAreFound(t *testing.T) {
	t.Parallel()
	l := land(t)
	original, err := l.profile.Canonical()
	require.NoError(t, err)
	replaced := *l.profile
	replaced.Rein.TimeoutSeconds--
	content, err := replaced.Canonical()
	require.NoError(t, err)
	digest, err := replaced.Digest()
	require.NoError(t, err)
	const replace = `UPDATE profile_revision SET canonical = $2, digest = $3 WHERE name = $1`
	for _, with := range []string{l.ref.Digest, digest} {
		l.Forge(t, replace, l.ref.Name, content, with)
		l.fails(t, "its digest is "+digest, evidence.CheckProfile, harness.CheckRemoteFence)
	}
	l.Forge(t, replace, l.ref.Name, original, l.ref.Digest)
	l.Forge(t, `UPDATE profile_revision SET name = 'elsewhere' WHERE name = $1`, l.ref.Name)
	l.fails(t, "profile_unknown", harness.CheckRemoteFence)
	l.Forge(t, `UPDATE profile_revision SET name = $1 WHERE name = 'elsewhere'`, l.ref.Name)
	l.verifies(t)

	for _, c := range []struct {
		table, key, column string
		forged, original   any
		says               string
		check              string
	}{
		{"ops_run", "id", "contract", bytes.Replace(l.run.ContractBytes, []byte("profile says"), []byte("forger says"), 1), l.run.ContractBytes, "emitted was", evidence.CheckContract},
		{"ops_run", "id", "effect", "not_dispatched", "confirmed", `"effect"`, harness.CheckRow},
		{"ops_run", "id", "target_ref", "refs/heads/other", trunk, `"target_ref"`, harness.CheckRow},
		{"ops_run", "id", "repository", "elsewhere/other", l.run.Repository, `"repository"`, harness.CheckRow},
		{"ops_run", "id", "operator", "mallory", "", `"operator"`, harness.CheckRow},
		{"ops_run", "id", "proof", "forged", "", `"proof"`, harness.CheckRow},
		{"ops_run", "id", "baseline", "1111111111111111111111111111111111111111", l.run.Baseline, `"baseline"`, harness.CheckRow},
		{"ops_run", "id", "result", bytes.Replace(l.run.Result, []byte("confirmed"), []byte("not_applied"), 1), l.run.Result, `"result"`, harness.CheckRow},
		{"run_intent", "run_id", "pack", []byte("PACK"), l.pack(t), "intended was", evidence.CheckPack},
	} {
		set := fmt.Sprintf(`UPDATE %s SET %s = $2 WHERE %s = $1`, c.table, c.column, c.key)
		l.Forge(t, set, l.run.ID, c.forged)
		l.fails(t, c.says, c.check)
		l.Forge(t, set, l.run.ID, c.original)
	}
	l.verifies(t)
}

func (l *landed) pack(t testing.TB) []byte {
	t.Helper()
	intent, found, err := l.h.Store().Intent(t.Context(), l.run.ID)
	require.NoError(t, err)
	require.True(t, found)
	return intent.Pack
}

// A35, B45: a branch or a fence that contradicts fails; a later run supersedes, and a fence whose retention has ended is expired,
// and neither speaks against the run.
func TestARemoteThatContradictsFailsAndLaterRunsDoNot(t *testing.T) {
	t.Parallel()
	l := land(t)
	tip := l.repo.Ref(t, trunk)
	l.repo.Git(t, "update-ref", trunk, l.repo.Baseline)
	l.fails(t, "does not hold the commit "+tip, harness.CheckRemoteBranch)
	l.repo.Git(t, "update-ref", "-d", trunk)
	l.fails(t, "does not hold the commit "+tip, harness.CheckRemoteBranch)
	l.repo.Git(t, "update-ref", trunk, tip)
	fence, err := repotx.FenceRef(l.run.ID)
	require.NoError(t, err)
	l.repo.Git(t, "update-ref", fence, l.repo.Baseline)
	l.fails(t, "the fence is at "+l.repo.Baseline, harness.CheckRemoteFence)
	l.repo.Git(t, "update-ref", fence, tip)
	report := l.verifies(t)
	require.Equal(t, evidence.ResultPass, report.Result(harness.CheckRemoteBranch))

	second := l.profile
	second.Name, second.Rein.Argv = "formatting-b", []string{"/usr/local/bin/gofumpt", "-l", "-w", "b.go"}
	later := deployment.Finish(t, l.h, deployment.Request("later", l.Vouch(t, l.h, second), l.repo))
	require.Equal(t, evidence.EffectConfirmed, later.Effect)
	report = l.verifies(t)
	require.Equal(t, evidence.ResultSuperseded, report.Result(harness.CheckRemoteBranch))
	require.Equal(t, evidence.ResultPass, report.Result(harness.CheckRemoteFence))

	l.Forge(t, `UPDATE run_fence SET due_at = now() - interval '1 second' WHERE run_id = $1`, l.run.ID)
	l.Forge(t, `UPDATE chore SET next_at = now() WHERE name = 'fences'`)
	stop := deployment.Serve(t, l.h)
	require.Eventually(t, func() bool { return l.repo.Ref(t, fence) == "" }, time.Minute, 50*time.Millisecond, "the fence's retention has ended")
	stop()
	report = l.verifies(t)
	require.Equal(t, evidence.ResultExpired, report.Result(harness.CheckRemoteFence))
	require.Equal(t, evidence.ResultSuperseded, report.Result(harness.CheckRemoteBranch))
	deployment.Verify(t, l.h, later.ID)
}

// A20, A35: an export verifies on its own, with the trust file alone; one that was changed or cut does not.
func TestExportVerifiesOfflineAndAChangedOneDoesNot(t *testing.T) {
	t.Parallel()
	l := land(t)
	export, code := l.Command(t, "evidence", "export", l.run.ID)
	require.Zero(t, code)
	verify := func(content []byte) (string, int) {
		file := filepath.Join(t.TempDir(), "run.evidence")
		require.NoError(t, os.WriteFile(file, content, 0o600))
		return l.Command(t, "evidence", "verify", file, "--trust", l.Config.Signing.TrustFile)
	}
	out, code := verify([]byte(export))
	require.Zero(t, code, out)
	for _, name := range []string{
		evidence.CheckChain, evidence.CheckSignature, evidence.CheckStatement, evidence.CheckContract, evidence.CheckProfile, evidence.CheckCommit,
		evidence.CheckPack,
	} {
		require.Contains(t, out, name)
	}
	require.NotContains(t, out, "not evaluated")

	out, code = verify(bytes.Replace([]byte(export), []byte(`"attended":false`), []byte(`"attended":true`), 1))
	require.Equal(t, int(evidence.ExitFailed), code, out)
	require.Contains(t, out, "fact 1 ")
	lines := bytes.SplitAfter([]byte(export), []byte("\n"))
	_, code = verify(bytes.Join(lines[:len(lines)-2], nil))
	require.NotZero(t, code, "the export's end is cut off")

	l.store(t, 2, []byte("{}"))
	_, code = l.Command(t, "evidence", "export", l.run.ID)
	require.NotZero(t, code, "what cannot be read is not exported as if it were whole")
	require.NoError(t, context.Cause(t.Context()))
}
