package evidence

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"

	"github.com/rein-aharness/harness/internal/canonical"
)

// ErrKey is what a key that cannot be used is refused with. Errors never hold key material.
var ErrKey = errors.New("not a usable Ed25519 key")

// Signer signs statements with one Ed25519 key.
type Signer struct {
	key ed25519.PrivateKey
	id  string
}

// NewSigner returns a signer for key.
func NewSigner(key ed25519.PrivateKey) (*Signer, error) {
	if len(key) != ed25519.PrivateKeySize {
		return nil, ErrKey
	}
	id, err := KeyID(key.Public().(ed25519.PublicKey))
	if err != nil {
		return nil, err
	}
	return &Signer{key: key, id: id}, nil
}

// ParsePrivateKey reads a PKCS #8 private key in PEM form, as `openssl genpkey -algorithm ed25519` writes it.
func ParsePrivateKey(data []byte) (ed25519.PrivateKey, error) {
	block, rest := pem.Decode(data)
	if block == nil || block.Type != "PRIVATE KEY" || len(bytes.TrimSpace(rest)) > 0 {
		return nil, ErrKey
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, ErrKey // the parser's text is not repeated beside a private key
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, ErrKey
	}
	return key, nil
}

// EncodePrivateKey writes what ParsePrivateKey reads.
func EncodePrivateKey(key ed25519.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, ErrKey
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// KeyID returns "sha256:" and the SHA-256 of the public key's SubjectPublicKeyInfo in DER form, which is what
// `openssl pkey -pubin -outform DER | sha256sum` prints.
func KeyID(public ed25519.PublicKey) (string, error) {
	der, err := encodePublicKey(public)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(der)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

func encodePublicKey(public ed25519.PublicKey) ([]byte, error) {
	if len(public) != ed25519.PublicKeySize {
		return nil, ErrKey
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKey, err)
	}
	return der, nil
}

func parsePublicKey(der []byte) (ed25519.PublicKey, error) {
	parsed, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKey, err)
	}
	public, ok := parsed.(ed25519.PublicKey)
	if !ok {
		return nil, ErrKey
	}
	return public, nil
}

// KeyID names the signer's key as the trust file does.
func (s *Signer) KeyID() string { return s.id }

// Public returns the signer's public key.
func (s *Signer) Public() ed25519.PublicKey { return s.key.Public().(ed25519.PublicKey) }

// Sign returns the DSSE envelope of the statement in canonical form, ready to be stored.
func (s *Signer) Sign(statement Statement) ([]byte, error) {
	payload, err := canonical.Marshal(statement)
	if err != nil {
		return nil, Fail(StageClose, CodeSigningFailed, "", err)
	}
	envelope, err := canonical.Marshal(dsse.Envelope{
		PayloadType: PayloadType,
		Payload:     base64.StdEncoding.EncodeToString(payload),
		Signatures: []dsse.Signature{{
			KeyID: s.id,
			Sig:   base64.StdEncoding.EncodeToString(ed25519.Sign(s.key, dsse.PAE(PayloadType, payload))),
		}},
	})
	if err != nil {
		return nil, Fail(StageClose, CodeSigningFailed, "", err)
	}
	return envelope, nil
}

// envelope is a DSSE envelope taken apart and not yet verified.
type envelope struct {
	payload   []byte
	keyID     string
	signature []byte
}

var envelopeBounds = canonical.Bounds{MaxBytes: 2 << 20, MaxDepth: 4, MaxValues: 32, MaxString: 2 << 20}

// parseEnvelope reads exactly what Sign writes: one signature, the harness's payload type, canonical bytes, strict base64.
func parseEnvelope(data []byte) (envelope, error) {
	var d dsse.Envelope
	if err := canonical.DecodeJSON(data, &d, envelopeBounds); err != nil {
		return envelope{}, err
	}
	again, err := canonical.Marshal(d)
	if err != nil {
		return envelope{}, err
	}
	switch {
	case !bytes.Equal(again, data):
		return envelope{}, errors.New("the envelope is not in canonical form")
	case d.PayloadType != PayloadType:
		return envelope{}, errors.New("the envelope carries another type of payload")
	case len(d.Signatures) != 1:
		return envelope{}, fmt.Errorf("the envelope has %d signatures instead of one", len(d.Signatures))
	}
	payload, err := base64.StdEncoding.Strict().DecodeString(d.Payload)
	if err != nil {
		return envelope{}, fmt.Errorf("the payload: %w", err)
	}
	signature, err := base64.StdEncoding.Strict().DecodeString(d.Signatures[0].Sig)
	if err != nil {
		return envelope{}, fmt.Errorf("the signature: %w", err)
	}
	return envelope{payload: payload, keyID: d.Signatures[0].KeyID, signature: signature}, nil
}

func (e envelope) signedBy(public ed25519.PublicKey) bool {
	return ed25519.Verify(public, dsse.PAE(PayloadType, e.payload), e.signature)
}
