package canonical

import (
	"bytes"
	"errors"
	"io"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// DecodeJSON decodes one JSON document into v, a pointer to a struct with json tags. It refuses, with an *Error: anything beyond
// the bounds, unknown fields (names are case-sensitive), duplicate names, null, bad UTF-8 and lone surrogates, numbers that are
// not plain decimal integers within ±(2^53-1), and data after the document. On an error v may be partly filled and must not be
// used. (B19)
func DecodeJSON(data []byte, v any, b Bounds) error {
	if err := check(data, b, false); err != nil {
		return err
	}
	if err := json.Unmarshal(data, v, json.RejectUnknownMembers(true)); err != nil {
		return semanticError(err)
	}
	return nil
}

// check reads data as a stream of tokens and holds it against every rule that does not depend on a Go type.
func check(data []byte, b Bounds, allowNull bool) error {
	b = b.withDefaults()
	if len(data) > b.MaxBytes {
		return &Error{Rule: ErrTooLarge, Detail: "at most " + strconv.Itoa(b.MaxBytes) + " bytes"}
	}
	dec := jsontext.NewDecoder(bytes.NewReader(data))
	values := 0
	for {
		// The depth is checked before the next token is read, so that no more than one level beyond the bound is ever held.
		if dec.StackDepth() > b.MaxDepth {
			return at(dec, ErrTooDeep)
		}
		tok, err := dec.ReadToken()
		if err != nil {
			return syntaxError(data, err)
		}
		switch tok.Kind() {
		case ']', '}':
		case 'n':
			if !allowNull {
				return at(dec, ErrNull)
			}
			values++
		case '0':
			if !safeInteger(tok.String()) {
				return at(dec, ErrNumber)
			}
			values++
		case '"':
			if len(tok.String()) > b.MaxString {
				return at(dec, ErrStringTooLong)
			}
			values++
		default:
			values++
		}
		if values > b.MaxValues {
			return at(dec, ErrTooManyValues)
		}
		if dec.StackDepth() == 0 {
			break
		}
	}
	switch _, err := dec.ReadToken(); {
	case errors.Is(err, io.EOF):
		return nil
	default:
		return &Error{Rule: ErrTrailing, Err: err}
	}
}

// safeInteger reports whether text, a JSON number, is a decimal integer within ±(2^53-1) in its one canonical spelling.
func safeInteger(text string) bool {
	n, err := strconv.ParseInt(text, 10, 64)
	return err == nil && -MaxSafeInteger <= n && n <= MaxSafeInteger && strconv.FormatInt(n, 10) == text
}

func at(dec *jsontext.Decoder, rule error) error {
	return &Error{Rule: rule, Pointer: string(dec.StackPointer())}
}

func syntaxError(data []byte, err error) error {
	e := &Error{Rule: ErrSyntax, Err: err}
	if s, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		e.Pointer = string(s.JSONPointer)
		switch {
		case errors.Is(err, jsontext.ErrDuplicateName):
			e.Rule = ErrDuplicate
		case jsontext.Value(data).IsValid(jsontext.AllowInvalidUTF8(true)):
			e.Rule = ErrUnicode
		}
	}
	return e
}

func semanticError(err error) error {
	e := &Error{Rule: ErrType, Err: err}
	if s, ok := errors.AsType[*json.SemanticError](err); ok {
		e.Pointer = string(s.JSONPointer)
		switch {
		case errors.Is(err, json.ErrUnknownName):
			e.Rule = ErrUnknownField
		case s.GoType != nil && s.JSONKind != 0:
			e.Detail = "JSON " + s.JSONKind.String() + " for " + s.GoType.String()
		}
	}
	return e
}
