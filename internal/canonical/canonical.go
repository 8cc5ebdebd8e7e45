package canonical

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Marshal returns v in the canonical form of RFC 8785. A nil slice and an empty one, and a nil map and an empty one, have the same
// form. It refuses numbers that are not safe integers, fractions, bad UTF-8 and duplicate names. It sets no bound of its own:
// v is the caller's. (B18)
func Marshal(v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encoding %T: %w", v, semanticError(err))
	}
	unbounded := Bounds{MaxBytes: math.MaxInt, MaxDepth: math.MaxInt, MaxValues: math.MaxInt, MaxString: math.MaxInt}
	if err := check(data, unbounded, true); err != nil {
		return nil, fmt.Errorf("encoding %T: %w", v, err)
	}
	return canonicalize(data)
}

// Transform returns the canonical form of a JSON document that passes the rules of DecodeJSON, whatever its fields.
func Transform(data []byte, b Bounds) ([]byte, error) {
	if err := check(data, b, false); err != nil {
		return nil, err
	}
	return canonicalize(data)
}

func canonicalize(data []byte) ([]byte, error) {
	value := jsontext.Value(append([]byte(nil), data...))
	if err := value.Canonicalize(); err != nil {
		return nil, syntaxError(data, err)
	}
	return value, nil
}

// Digest returns "sha256:" and 64 lower-case hex digits over domain, a line feed and Marshal(v). The domain keeps documents of
// different kinds apart: the same content under another domain has another digest. It must not be empty or hold a line break.
func Digest(domain string, v any) (string, error) {
	data, err := Marshal(v)
	if err != nil {
		return "", err
	}
	return DigestBytes(domain, data)
}

// DigestBytes is Digest for a document that is in canonical form already. It does not check that it is.
func DigestBytes(domain string, canonical []byte) (string, error) {
	if domain == "" || strings.ContainsAny(domain, "\r\n") {
		return "", &Error{Rule: ErrDomain}
	}
	h := sha256.New()
	h.Write([]byte(domain + "\n"))
	h.Write(canonical)
	return digestPrefix + hex.EncodeToString(h.Sum(nil)), nil
}

const digestPrefix = "sha256:"

// ValidDigest reports whether s has the one form that Digest returns.
func ValidDigest(s string) bool {
	digits, ok := strings.CutPrefix(s, digestPrefix)
	return ok && len(digits) == 2*sha256.Size && strings.Trim(digits, "0123456789abcdef") == ""
}

// Fields splits a JSON object into its members, each with its bytes as they stand there.
func Fields(object []byte) (map[string][]byte, error) {
	var members map[string]jsontext.Value
	if err := json.Unmarshal(object, &members); err != nil {
		return nil, semanticError(err)
	}
	fields := make(map[string][]byte, len(members))
	for name, value := range members {
		fields[name] = value
	}
	return fields, nil
}
