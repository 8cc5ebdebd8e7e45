package evidence

import (
	"bytes"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/rein-aharness/harness/internal/canonical"
)

// Fact is one link of a run's chain. It is made by Chain.Append only. Digest covers every other field, Body by its exact
// canonical bytes, and Prev is the digest of the fact before, empty for the first.
type Fact struct {
	Run    string         `json:"run"`
	Seq    int            `json:"seq"`   // from 1, without gaps
	Epoch  int64          `json:"epoch"` // of the lease under which the fact was made; 0 before the first claim
	Stage  Stage          `json:"stage"`
	Kind   Kind           `json:"kind"`
	Source Source         `json:"source"`
	At     string         `json:"at"` // UTC, RFC 3339 with microseconds and Z
	Body   jsontext.Value `json:"body"`
	Prev   string         `json:"prev"`
	Digest string         `json:"digest"`
}

// timeLayout is the one form of a time in evidence. (B42)
const timeLayout = "2006-01-02T15:04:05.000000Z"

// FormatTime returns t as evidence writes it: UTC, microseconds, Z. What is finer than a microsecond is dropped.
func FormatTime(t time.Time) string { return t.UTC().Format(timeLayout) }

// ParseTime reads what FormatTime writes and nothing else.
func ParseTime(s string) (time.Time, error) {
	t, err := time.Parse(timeLayout, s)
	if err != nil || FormatTime(t) != s {
		return time.Time{}, fmt.Errorf("%w: not a UTC time with microseconds", ErrFactMalformed)
	}
	return t, nil
}

// Open returns the fact's body as the struct of its kind. It refuses bytes that are not exactly what the kind's struct encodes to.
func (f Fact) Open() (Body, error) { return open(f.Kind, f.Body) }

// Encode returns the whole fact in canonical form, for an export or a store that keeps a fact in one piece.
func (f Fact) Encode() ([]byte, error) { return canonical.Marshal(f) }

// factBounds is bodyBounds and room for the fields around the body.
var factBounds = canonical.Bounds{
	MaxBytes: bodyBounds.MaxBytes + 16<<10, MaxDepth: bodyBounds.MaxDepth + 1, MaxValues: bodyBounds.MaxValues + 64,
	MaxString: bodyBounds.MaxString,
}

// DecodeFact reads what Encode wrote and refuses any other bytes. It does not verify the chain.
func DecodeFact(data []byte) (Fact, error) {
	var f Fact
	if err := canonical.DecodeJSON(data, &f, factBounds); err != nil {
		return Fact{}, fmt.Errorf("%w: %w", ErrFactMalformed, err)
	}
	again, err := f.Encode()
	if err != nil {
		return Fact{}, fmt.Errorf("%w: %w", ErrFactMalformed, err)
	}
	if !bytes.Equal(again, data) {
		return Fact{}, fmt.Errorf("%w: the fact is not in canonical form", ErrFactMalformed)
	}
	return f, nil
}

// digest recomputes the fact's digest. A fact whose strings or numbers have no canonical form has none.
func (f Fact) digest() (string, error) {
	f.Digest = ""
	d, err := canonical.Digest(DomainFact, f)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrFactMalformed, err)
	}
	return d, nil
}

// First returns the body of the first fact of T's kind, and whether there is one.
func First[T Body](facts []Fact) (T, bool, error) {
	for _, f := range facts {
		if body, ok, err := bodyOf[T](f); ok || err != nil {
			return body, ok, err
		}
	}
	var none T
	return none, false, nil
}

// Last returns the body of the last fact of T's kind, and whether there is one.
func Last[T Body](facts []Fact) (T, bool, error) {
	for i := len(facts) - 1; i >= 0; i-- {
		if body, ok, err := bodyOf[T](facts[i]); ok || err != nil {
			return body, ok, err
		}
	}
	var none T
	return none, false, nil
}

func bodyOf[T Body](f Fact) (T, bool, error) {
	var none T
	if f.Kind != none.Kind() {
		return none, false, nil
	}
	body, err := f.Open()
	if err != nil {
		return none, false, fmt.Errorf("fact %d: %w", f.Seq, err)
	}
	return body.(T), true, nil
}
