package evidence

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/rein-aharness/harness/internal/canonical"
)

// Trust is the set of public keys whose statements are believed, each for a time. It comes from a file that the verifier keeps,
// never from the harness's database. To rotate, add the new key and let the old one's not_after stand: what it signed before stays
// verifiable. To withdraw a key, also for what it signed before, remove it.
type Trust struct{ keys []TrustedKey }

// TrustedKey is one key of a trust file. It is believed for runs closed in [NotBefore, NotAfter); a zero NotAfter has no end.
// The time of closing is the signer's own word, so a stolen key can sign with an earlier one.
type TrustedKey struct {
	KeyID     string
	Public    ed25519.PublicKey
	NotBefore time.Time
	NotAfter  time.Time
}

// trustFile is the file's form.
type trustFile struct {
	Keys []trustFileKey `json:"keys"`
}

type trustFileKey struct {
	KeyID     string `json:"key_id"`
	PublicKey string `json:"public_key"` // base64 of the SubjectPublicKeyInfo in DER form: the middle of a PEM file
	NotBefore string `json:"not_before"`
	NotAfter  string `json:"not_after,omitempty"`
}

// maxTrustBytes bounds a trust file.
const maxTrustBytes = 256 << 10

// LoadTrust reads a trust file.
func LoadTrust(path string) (Trust, error) {
	f, err := os.Open(path)
	if err != nil {
		return Trust{}, fmt.Errorf("reading the trust file: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxTrustBytes+1))
	if err != nil {
		return Trust{}, fmt.Errorf("reading the trust file: %w", err)
	}
	trust, err := ParseTrust(data)
	if err != nil {
		return Trust{}, fmt.Errorf("trust file %s: %w", path, err)
	}
	return trust, nil
}

// ParseTrust reads a trust file's YAML. Every key must be named by its own key id, once, with a time that is not empty.
func ParseTrust(data []byte) (Trust, error) {
	var file trustFile
	if err := canonical.DecodeYAML(data, &file, canonical.Bounds{MaxBytes: maxTrustBytes}); err != nil {
		return Trust{}, err
	}
	keys := make([]TrustedKey, 0, len(file.Keys))
	for i, k := range file.Keys {
		key, err := k.parse()
		if err != nil {
			return Trust{}, fmt.Errorf("key %d: %w", i+1, err)
		}
		keys = append(keys, key)
	}
	return NewTrust(keys...)
}

// NewTrust returns the trust in keys. It checks them as ParseTrust does.
func NewTrust(keys ...TrustedKey) (Trust, error) {
	if len(keys) == 0 {
		return Trust{}, fmt.Errorf("%w: no key is trusted", ErrKey)
	}
	seen := map[string]bool{}
	for i, k := range keys {
		id, err := KeyID(k.Public)
		switch {
		case err != nil:
			return Trust{}, fmt.Errorf("key %d: %w", i+1, err)
		case id != k.KeyID:
			return Trust{}, fmt.Errorf("key %d: %w: the key id is not the key's, which is %s", i+1, ErrKey, id)
		case seen[id]:
			return Trust{}, fmt.Errorf("key %d: %w: %s is there twice", i+1, ErrKey, id)
		case !k.NotAfter.IsZero() && !k.NotBefore.Before(k.NotAfter):
			return Trust{}, fmt.Errorf("key %d: %w: not_before is not before not_after", i+1, ErrKey)
		}
		seen[id] = true
	}
	return Trust{keys: append([]TrustedKey(nil), keys...)}, nil
}

func (k trustFileKey) parse() (TrustedKey, error) {
	der, err := base64.StdEncoding.Strict().DecodeString(k.PublicKey)
	if err != nil {
		return TrustedKey{}, fmt.Errorf("%w: public_key is not base64", ErrKey)
	}
	public, err := parsePublicKey(der)
	if err != nil {
		return TrustedKey{}, fmt.Errorf("public_key: %w", err)
	}
	key := TrustedKey{KeyID: k.KeyID, Public: public}
	if key.NotBefore, err = parseTrustTime(k.NotBefore); err != nil {
		return TrustedKey{}, fmt.Errorf("not_before: %w", err)
	}
	if k.NotAfter == "" {
		return key, nil
	}
	if key.NotAfter, err = parseTrustTime(k.NotAfter); err != nil {
		return TrustedKey{}, fmt.Errorf("not_after: %w", err)
	}
	return key, nil
}

// trustTimeLayout is the form of a time in a trust file: UTC, whole seconds.
const trustTimeLayout = "2006-01-02T15:04:05Z"

func parseTrustTime(s string) (time.Time, error) {
	t, err := time.Parse(trustTimeLayout, s)
	if err != nil || t.Format(trustTimeLayout) != s {
		return time.Time{}, fmt.Errorf("%w: a time is written as %s", ErrKey, trustTimeLayout)
	}
	return t, nil
}

// Key returns the key with this id.
func (t Trust) Key(id string) (TrustedKey, bool) {
	for _, k := range t.keys {
		if k.KeyID == id {
			return k, true
		}
	}
	return TrustedKey{}, false
}

// Encode writes a trust file. Fractions of seconds of the times are dropped.
func (t Trust) Encode() ([]byte, error) {
	var b strings.Builder
	b.WriteString("keys:\n")
	for _, k := range t.keys {
		der, err := encodePublicKey(k.Public)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "  - key_id: %q\n    public_key: %q\n", k.KeyID, base64.StdEncoding.EncodeToString(der))
		fmt.Fprintf(&b, "    not_before: %q\n", k.NotBefore.UTC().Format(trustTimeLayout))
		if !k.NotAfter.IsZero() {
			fmt.Fprintf(&b, "    not_after: %q\n", k.NotAfter.UTC().Format(trustTimeLayout))
		}
	}
	return []byte(b.String()), nil
}

// validAt reports whether the key is believed for a run closed at t.
func (k TrustedKey) validAt(t time.Time) bool {
	return !t.Before(k.NotBefore) && (k.NotAfter.IsZero() || t.Before(k.NotAfter))
}
