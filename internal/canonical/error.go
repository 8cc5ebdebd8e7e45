package canonical

import (
	"errors"
	"fmt"
	"strings"
)

// The rules a document can break. Each is the Rule of an *Error and is found with errors.Is.
var (
	ErrTooLarge      = errors.New("document too large")
	ErrTooDeep       = errors.New("nested too deep")
	ErrTooManyValues = errors.New("too many values")
	ErrStringTooLong = errors.New("string too long")
	ErrSyntax        = errors.New("syntax error")
	ErrUnicode       = errors.New("invalid Unicode")
	ErrNumber        = errors.New("number is not a safe integer in plain decimal form")
	ErrNull          = errors.New("null is not a value")
	ErrDuplicate     = errors.New("duplicate member name")
	ErrTrailing      = errors.New("data after the document")
	ErrUnknownField  = errors.New("unknown field")
	ErrType          = errors.New("wrong type")
	ErrYAMLFeature   = errors.New("YAML feature not allowed")
	ErrDomain        = errors.New("digest domain is empty or holds a line break")
)

// Error says which rule a document breaks and where. Its text never quotes a value of the document.
type Error struct {
	Rule    error  // one of this package's sentinels
	Pointer string // JSON pointer to the place, where known
	Line    int    // of a YAML document, from 1; 0 where unknown
	Detail  string // what was expected; empty where the rule says it all
	Err     error  // a cause to look at with errors.As; not part of the text, because it may quote a value
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Rule.Error())
	if e.Detail != "" {
		b.WriteString(": " + e.Detail)
	}
	if e.Pointer != "" {
		fmt.Fprintf(&b, " at %+q", shorten(e.Pointer, 256))
	}
	if e.Line > 0 {
		fmt.Fprintf(&b, " in line %d", e.Line)
	}
	return b.String()
}

func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Rule}
	}
	return []error{e.Rule, e.Err}
}

func shorten(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return s[:limit] + "…"
}
