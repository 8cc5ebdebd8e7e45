package evidence

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/rein-aharness/harness/internal/canonical"
)

// The types of the signed document.
const (
	StatementType = "https://in-toto.io/Statement/v1"
	PredicateType = "https://github.com/rein-aharness/harness/evidence/run/v1"
	PayloadType   = "application/vnd.in-toto+json"
)

// Statement is an in-toto Statement v1 about one closed run. Its subject is the accepted commit, or the run itself when there is
// none.
type Statement struct {
	Type          string    `json:"_type"`
	Subject       []Subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     Predicate `json:"predicate"`
}

// Subject is what a statement is about: {"gitCommit": <hash>} for a commit, {"sha256": <head of the chain>} for a run without one.
type Subject struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"`
}

// Predicate says how the run went. Every field is derived from the facts, so that it can be recomputed; Head and Facts bind it to
// exactly those facts and to none fewer. Labels that weaken what the run shows stand here too: Proof, Attended, Fencing,
// Manifest, NotEnforced, TeardownObserved. (A5, A13, B35)
type Predicate struct {
	Run   string `json:"run"`
	Head  string `json:"head"`  // digest of the last fact
	Facts int    `json:"facts"` // how many there are

	State       State   `json:"state"`
	Effect      Effect  `json:"effect"`
	Stage       Stage   `json:"stage"`
	Code        Code    `json:"code"`
	Disposition Outcome `json:"disposition"`

	Definition     string            `json:"definition"`
	RequestDigest  string            `json:"request_digest"`
	ContractDigest string            `json:"contract_digest"`
	Profile        string            `json:"profile"`
	ProfileDigest  string            `json:"profile_digest"`
	Pins           map[string]string `json:"pins"`
	Actor          Actor             `json:"actor"`
	Owner          string            `json:"owner"` // of the last lease
	Epoch          int64             `json:"epoch"` // of the last fact

	Repository  string `json:"repository"`
	BaseRef     string `json:"base_ref"`
	TargetRef   string `json:"target_ref"`
	Baseline    string `json:"baseline"`
	Transaction string `json:"transaction"`
	Commit      string `json:"commit"` // the intended one; accepted when Effect is confirmed
	Tree        string `json:"tree"`
	Lease       string `json:"lease"` // at publication
	Displaced   bool   `json:"displaced"`
	RecordLost  bool   `json:"record_lost,omitempty"` // the commit was found at the remote; how it came about is not known

	Proof            bool     `json:"proof"`
	Attended         bool     `json:"attended"`
	Operator         string   `json:"operator"`
	Fencing          string   `json:"fencing"`
	Manifest         string   `json:"manifest"`
	NotEnforced      []string `json:"not_enforced"`
	TeardownObserved bool     `json:"teardown_observed"` // everything was seen to be gone

	EmittedAt string `json:"emitted_at"`
	StartedAt string `json:"started_at"` // empty when the run never began
	ClosedAt  string `json:"closed_at"`
}

// statementBounds is more than any statement that BuildStatement makes.
var statementBounds = canonical.Bounds{MaxBytes: 1 << 20, MaxDepth: 8, MaxValues: 4096, MaxString: 8192}

// BuildStatement verifies the facts of a closed run and derives the statement from all of them.
func BuildStatement(facts []Fact) (Statement, error) {
	c, err := Resume(facts)
	if err != nil {
		return Statement{}, err
	}
	if !c.seen[KindClosed] {
		return Statement{}, fmt.Errorf("%w: the run is not closed", ErrOrder)
	}
	p := Predicate{Run: c.run, Head: c.head(), Facts: len(facts), Epoch: c.epoch}
	for _, f := range facts {
		body, err := f.Open()
		if err != nil {
			return Statement{}, err
		}
		p.include(f, body)
	}
	return Statement{Type: StatementType, Subject: []Subject{p.subject()}, PredicateType: PredicateType, Predicate: p}, nil
}

func (p *Predicate) include(f Fact, body Body) {
	switch b := body.(type) {
	case Emitted:
		p.EmittedAt, p.Definition, p.RequestDigest, p.ContractDigest = f.At, b.Definition, b.RequestDigest, b.ContractDigest
		p.Profile, p.ProfileDigest, p.Actor, p.Proof = b.Profile, b.ProfileDigest, b.Actor, b.Proof
		p.Attended, p.Operator = b.Attended, b.Operator
		p.Repository, p.BaseRef, p.TargetRef, p.Baseline = b.Repository, b.BaseRef, b.TargetRef, b.Baseline
	case Claimed:
		p.Owner = b.Owner
	case Resolved:
		p.Pins = b.Pins
	case Started:
		p.StartedAt = f.At
	case Preflighted:
		p.Fencing, p.Manifest = b.Fencing, b.Manifest
	case Sandboxed:
		p.NotEnforced = b.NotEnforced
	case TornDown:
		p.TeardownObserved = f.Source == SourceObserved && b.Clean()
	case Intended:
		p.Transaction, p.Commit, p.Tree = b.Transaction, b.Commit, b.Tree
	case Found:
		p.Transaction, p.Commit, p.Tree, p.RecordLost = b.Transaction, b.Commit, b.Tree, true
	case Published:
		p.Lease = b.Lease
	case Settled:
		p.Displaced = b.Displaced
	case Closed:
		p.ClosedAt, p.State, p.Effect, p.Stage, p.Code, p.Disposition = f.At, b.State, b.Effect, b.Stage, b.Code, b.Disposition
	}
}

func (p *Predicate) subject() Subject {
	if p.Effect == EffectConfirmed {
		return Subject{Name: p.Repository, Digest: map[string]string{"gitCommit": p.Commit}}
	}
	return Subject{Name: "run/" + p.Run, Digest: map[string]string{"sha256": strings.TrimPrefix(p.Head, "sha256:")}}
}

// parseStatement reads a signed payload and refuses bytes that are not the canonical form of a statement about a run.
func parseStatement(payload []byte) (Statement, error) {
	var s Statement
	if err := canonical.DecodeJSON(payload, &s, statementBounds); err != nil {
		return Statement{}, err
	}
	again, err := canonical.Marshal(s)
	if err != nil {
		return Statement{}, err
	}
	switch {
	case !bytes.Equal(again, payload):
		return Statement{}, fmt.Errorf("the statement is not in canonical form")
	case s.Type != StatementType || s.PredicateType != PredicateType:
		return Statement{}, fmt.Errorf("the statement is of another type")
	}
	return s, nil
}

// differences names the fields in which two statements differ, sorted.
func (s Statement) differences(other Statement) ([]string, error) {
	left, err := flatten(s)
	if err != nil {
		return nil, err
	}
	right, err := flatten(other)
	if err != nil {
		return nil, err
	}
	var names []string
	for name, value := range left {
		if !bytes.Equal(value, right[name]) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// flatten returns the canonical bytes of a statement's fields by name.
func flatten(s Statement) (map[string][]byte, error) {
	fields := map[string][]byte{}
	for name, value := range map[string]any{"_type": s.Type, "subject": s.Subject, "predicateType": s.PredicateType} {
		data, err := canonical.Marshal(value)
		if err != nil {
			return nil, err
		}
		fields[name] = data
	}
	data, err := canonical.Marshal(s.Predicate)
	if err != nil {
		return nil, err
	}
	predicate, err := canonical.Fields(data)
	if err != nil {
		return nil, err
	}
	for name, value := range predicate {
		fields[name] = value
	}
	return fields, nil
}
