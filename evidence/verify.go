package evidence

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rein-aharness/harness/internal/canonical"
)

// Record is everything about one run that can be verified away from where it ran. Nothing in it is trusted.
type Record struct {
	Run   string
	Facts []Fact
	// Unreadable is why what is stored after Facts is no fact; nil when all of it was read. It fails the chain.
	Unreadable error
	Envelope   []byte // the signed statement; empty when the run is not closed
	Profile    []byte // canonical bytes of the profile revision; optional
	Contract   []byte // canonical bytes of the contract; optional
	Commit     []byte // the commit object's content, without git's header; optional
	Pack       []byte // optional
}

// VerifyOffline recomputes everything about a run that can be recomputed without the harness and without the remote. It never stops
// early: what cannot be evaluated because something before it failed, or because it was not supplied, says so. (A20, A35, B45)
func VerifyOffline(rec Record, trust Trust) Report {
	v := &verification{rec: rec, trust: trust, report: Report{Run: Clean(rec.Run, defaultMaxString)}}
	v.chain()
	v.envelope()
	v.statement()
	v.pins()
	v.isolation()
	v.document(CheckContract, DomainContract, rec.Contract, v.emitted.ContractDigest)
	v.document(CheckProfile, DomainProfile, rec.Profile, v.emitted.ProfileDigest)
	v.commit()
	v.pack()
	v.later()
	return v.report
}

type verification struct {
	rec    Record
	trust  Trust
	report Report

	chainHolds bool
	signed     *Statement // set when its bytes could be read, whoever signed them

	emitted     Emitted
	resolved    *Resolved
	preflighted *Preflighted
	sandboxed   *Sandboxed
	intended    *Intended
	found       *Found
}

func (v *verification) add(name string, result Result, format string, args ...any) {
	v.report.Add(Check{Name: name, Scope: ScopeOffline, Result: result, Detail: fmt.Sprintf(format, args...)})
}

func (v *verification) chain() {
	if err := v.rec.Unreadable; err != nil {
		v.add(CheckChain, ResultFail, "%v", err)
		return
	}
	if err := VerifyChain(v.rec.Run, v.rec.Facts); err != nil {
		v.add(CheckChain, ResultFail, "%v", err)
		return
	}
	v.chainHolds = true
	for _, f := range v.rec.Facts {
		body, err := f.Open()
		if err != nil { // VerifyChain opened it before
			v.add(CheckChain, ResultFail, "fact %d: %v", f.Seq, err)
			v.chainHolds = false
			return
		}
		switch b := body.(type) {
		case Emitted:
			v.emitted = b
		case Resolved:
			v.resolved = &b
		case Preflighted:
			v.preflighted = &b
		case Sandboxed:
			v.sandboxed = &b
		case Intended:
			v.intended = &b
		case Found:
			v.found = &b
		}
	}
	last := v.rec.Facts[len(v.rec.Facts)-1]
	v.add(CheckChain, ResultPass, "%d facts, head %s", len(v.rec.Facts), last.Digest)
}

func (v *verification) envelope() {
	if len(v.rec.Envelope) == 0 {
		v.add(CheckEnvelope, ResultFail, "there is no signed statement: the run is not closed, or its evidence is incomplete")
		v.add(CheckSignature, ResultNotEvaluated, "no signed statement")
		v.add(CheckKey, ResultNotEvaluated, "no signed statement")
		return
	}
	env, err := parseEnvelope(v.rec.Envelope)
	if err == nil {
		var s Statement
		if s, err = parseStatement(env.payload); err == nil {
			v.signed = &s
		}
	}
	if err != nil {
		v.add(CheckEnvelope, ResultFail, "%v", err)
		v.add(CheckSignature, ResultNotEvaluated, "the envelope is malformed")
		v.add(CheckKey, ResultNotEvaluated, "the envelope is malformed")
		return
	}
	v.add(CheckEnvelope, ResultPass, "in-toto Statement v1 in a DSSE envelope")
	v.signature(env)
}

func (v *verification) signature(env envelope) {
	key, ok := v.trust.Key(env.keyID)
	switch {
	case !ok:
		v.add(CheckSignature, ResultFail, "the trust file has no key %s", env.keyID)
	case !env.signedBy(key.Public):
		v.add(CheckSignature, ResultFail, "the signature is not key %s's over this statement", env.keyID)
	default:
		v.add(CheckSignature, ResultPass, "Ed25519, key %s", env.keyID)
		v.keyValidity(key)
		return
	}
	v.add(CheckKey, ResultNotEvaluated, "no trusted signature")
}

func (v *verification) keyValidity(key TrustedKey) {
	closed, err := ParseTime(v.signed.Predicate.ClosedAt)
	switch {
	case err != nil:
		v.add(CheckKey, ResultFail, "the statement has no time of closing")
	case !key.validAt(closed):
		v.add(CheckKey, ResultFail, "the run closed at %s, when the key was not valid", v.signed.Predicate.ClosedAt)
	default:
		v.add(CheckKey, ResultPass, "valid when the run closed at %s", v.signed.Predicate.ClosedAt)
	}
}

func (v *verification) statement() {
	switch {
	case v.signed == nil:
		v.add(CheckStatement, ResultNotEvaluated, "no readable statement")
		return
	case !v.chainHolds:
		v.add(CheckStatement, ResultNotEvaluated, "the chain does not hold")
		return
	}
	covered := v.signed.Predicate.Facts
	if covered < 1 || covered > len(v.rec.Facts) {
		v.add(CheckStatement, ResultFail, "the statement covers %d facts, here are %d: the end is missing", covered, len(v.rec.Facts))
		return
	}
	if head := v.rec.Facts[covered-1].Digest; head != v.signed.Predicate.Head {
		v.add(CheckStatement, ResultFail, "the statement was signed over facts that end in %s, these end in %s", v.signed.Predicate.Head, head)
		return
	}
	derived, err := BuildStatement(v.rec.Facts[:covered])
	if err != nil {
		v.add(CheckStatement, ResultFail, "no statement follows from the facts: %v", err)
		return
	}
	differ, err := v.signed.differences(derived)
	switch {
	case err != nil:
		v.add(CheckStatement, ResultFail, "%v", err)
	case len(differ) > 0:
		v.add(CheckStatement, ResultFail, "the statement says otherwise than the facts in %s", strings.Join(differ, ", "))
	default:
		p := derived.Predicate
		v.add(CheckStatement, ResultPass, "%s, effect %s, disposition %s%s", p.State, p.Effect, p.Disposition, labels(p))
	}
}

// labels lists what weakens a run, for every view of it. (A5, A13, B35)
func labels(p Predicate) string {
	var out []string
	for label, on := range map[string]bool{
		"proof":                 p.Proof,
		"attended":              p.Attended,
		"fencing waived":        p.Fencing == "waived",
		"manifest waived":       p.Manifest == "waived",
		"limits not enforced":   len(p.NotEnforced) > 0,
		"displaced":             p.Displaced,
		"record lost":           p.RecordLost,
		"teardown not observed": p.StartedAt != "" && !p.TeardownObserved,
	} {
		if on {
			out = append(out, label)
		}
	}
	if len(out) == 0 {
		return ""
	}
	slices.Sort(out)
	return "; labelled " + strings.Join(out, ", ")
}

// pins holds what was asked for against what was resolved, run and intended. (A3)
func (v *verification) pins() {
	if !v.chainHolds {
		v.add(CheckPins, ResultNotEvaluated, "the chain does not hold")
		return
	}
	type pair struct{ name, emitted, later string }
	var pairs []pair
	e := v.emitted
	if r := v.resolved; r != nil {
		pairs = append(pairs, pair{"profile", e.Profile, r.Profile}, pair{"profile digest", e.ProfileDigest, r.ProfileDigest},
			pair{"proof label", fmt.Sprint(e.Proof), fmt.Sprint(r.Proof)})
	}
	if s := v.sandboxed; s != nil {
		pairs = append(pairs, pair{"actor", string(e.Actor), string(s.Actor)})
	}
	if i := v.intended; i != nil {
		pairs = append(pairs, pair{"baseline", e.Baseline, i.Baseline}, pair{"base ref", e.BaseRef, i.BaseRef},
			pair{"target ref", e.TargetRef, i.TargetRef})
		if p := v.preflighted; p != nil {
			pairs = append(pairs, pair{"fence ref", p.FenceRef, i.FenceRef})
		}
	}
	if f := v.found; f != nil {
		pairs = append(pairs, pair{"profile", e.Profile + "#" + e.ProfileDigest, f.Profile})
	}
	var differ []string
	for _, p := range pairs {
		if p.emitted != p.later {
			differ = append(differ, p.name)
		}
	}
	if len(differ) > 0 {
		v.add(CheckPins, ResultFail, "exchanged on the way: %s", strings.Join(differ, ", "))
		return
	}
	v.add(CheckPins, ResultPass, "%d values are the same from emission to intent", len(pairs))
}

// isolation holds the observed posture against the declared one. (A22)
func (v *verification) isolation() {
	switch {
	case !v.chainHolds:
		v.add(CheckIsolation, ResultNotEvaluated, "the chain does not hold")
		return
	case v.sandboxed == nil && v.found != nil:
		v.add(CheckIsolation, ResultNotEvaluated, "the record of the session is lost")
		return
	case v.sandboxed == nil:
		v.add(CheckIsolation, ResultNotEvaluated, "no sandbox was created")
		return
	}
	s := v.sandboxed
	var differ []string
	for _, name := range slices.Sorted(maps.Keys(s.Declared)) {
		observed := s.Observed[name]
		labelled := observed == NotEnforced && len(s.NotEnforced) > 0
		if observed != s.Declared[name] && !labelled {
			differ = append(differ, name)
		}
	}
	if len(differ) > 0 {
		v.add(CheckIsolation, ResultFail, "observed otherwise than declared: %s", strings.Join(differ, ", "))
		return
	}
	enforced := ""
	if len(s.NotEnforced) > 0 {
		enforced = "; not enforced: " + strings.Join(s.NotEnforced, ", ")
	}
	v.add(CheckIsolation, ResultPass, "%d declared properties, runtime %s, reachability %s%s", len(s.Declared), s.Runtime, s.Reachability, enforced)
}

// documentBounds is more than any contract or profile.
var documentBounds = canonical.Bounds{MaxBytes: 4 << 20}

func (v *verification) document(name, domain string, data []byte, want string) {
	switch {
	case !v.chainHolds:
		v.add(name, ResultNotEvaluated, "the chain does not hold")
		return
	case len(data) == 0:
		v.add(name, ResultNotEvaluated, "not supplied; its digest is %s", want)
		return
	}
	if form, err := canonical.Transform(data, documentBounds); err != nil || !bytes.Equal(form, data) {
		v.add(name, ResultFail, "not in canonical form")
		return
	}
	got, err := canonical.DigestBytes(domain, data)
	switch {
	case err != nil:
		v.add(name, ResultFail, "%v", err)
	case got != want:
		v.add(name, ResultFail, "its digest is %s, emitted was %s", got, want)
	default:
		v.add(name, ResultPass, "%s", got)
	}
}

func (v *verification) commit() {
	switch {
	case !v.chainHolds:
		v.add(CheckCommit, ResultNotEvaluated, "the chain does not hold")
	case v.found != nil:
		v.add(CheckCommit, ResultNotEvaluated, "the record is lost; the commit that names the run at the remote is %s", v.found.Commit)
	case v.intended == nil:
		v.add(CheckCommit, ResultNotEvaluated, "no commit was intended")
	case len(v.rec.Commit) == 0:
		v.add(CheckCommit, ResultNotEvaluated, "not supplied; its hash is %s", v.intended.Commit)
	default:
		if err := checkCommit(v.rec.Commit, v.rec.Run, v.emitted, *v.intended); err != nil {
			v.add(CheckCommit, ResultFail, "%v", err)
			return
		}
		v.add(CheckCommit, ResultPass, "%s, tree and parent as intended", v.intended.Commit)
	}
}

func (v *verification) pack() {
	switch {
	case !v.chainHolds:
		v.add(CheckPack, ResultNotEvaluated, "the chain does not hold")
	case v.found != nil:
		v.add(CheckPack, ResultNotEvaluated, "the record is lost")
	case v.intended == nil:
		v.add(CheckPack, ResultNotEvaluated, "no commit was intended")
	case len(v.rec.Pack) == 0:
		v.add(CheckPack, ResultNotEvaluated, "not supplied; its digest is %s", v.intended.PackDigest)
	default:
		sum := sha256.Sum256(v.rec.Pack)
		if got := "sha256:" + hex.EncodeToString(sum[:]); got != v.intended.PackDigest {
			v.add(CheckPack, ResultFail, "its digest is %s, intended was %s", got, v.intended.PackDigest)
			return
		}
		v.add(CheckPack, ResultPass, "%d bytes, %s", len(v.rec.Pack), v.intended.PackDigest)
	}
}

// later reports facts that no signature covers. The chain admits only a teardown that its host supplied afterwards.
func (v *verification) later() {
	if !v.chainHolds || v.signed == nil {
		return
	}
	if n := len(v.rec.Facts) - v.signed.Predicate.Facts; n > 0 {
		v.add(CheckLater, ResultNotEvaluated, "%d facts were supplied after the signature and are not covered by it", n)
	}
}
