package credential

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/repotx"
)

// targetWorker is the target kind, in evidence, of what never leaves the worker.
const targetWorker = "worker"

// Publish acquires the credential of a publish route. It stays in the worker: nothing of it goes to a session. The caller adds
// what the remote is recognised by. Refusals and failures are those of Read.
func (s *Session) Publish(ctx context.Context, route PublishRoute) (repotx.Auth, error) {
	if err := s.declared(route.Validate(), route.Policy, route.TTLSeconds); err != nil {
		return repotx.Auth{}, s.record(route.Revision, targetWorker, outcomeRefused, evidence.CodeCredentialUndeclared, err)
	}
	auth, err := s.publish(ctx, route)
	if err != nil {
		return repotx.Auth{}, s.record(route.Revision, targetWorker, outcomeFailed, evidence.CodeCredentialFailed, err)
	}
	return auth, s.record(route.Revision, targetWorker, outcomeReleased, "", nil)
}

func (s *Session) publish(ctx context.Context, route PublishRoute) (repotx.Auth, error) {
	if route.Kind == PublishSSHCertificate {
		return s.certify(ctx, route)
	}
	fields, err := s.readFields(ctx, route.Path)
	if err != nil {
		return repotx.Auth{}, err
	}
	if route.Kind == PublishSSHKey {
		key, err := s.field(fields, route.KeyField)
		if err != nil {
			return repotx.Auth{}, err
		}
		return repotx.NewSSHKeyAuth(route.User, key.Reveal())
	}
	username, err := s.field(fields, route.UsernameField)
	if err != nil {
		return repotx.Auth{}, err
	}
	password, err := s.field(fields, route.PasswordField)
	if err != nil {
		return repotx.Auth{}, err
	}
	return repotx.NewBasicAuth(string(username.Reveal()), string(password.Reveal()))
}

// certify has Vault's ssh engine sign a key that exists in this process alone.
func (s *Session) certify(ctx context.Context, route PublishRoute) (repotx.Auth, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return repotx.Auth{}, fmt.Errorf("make a key: %w", err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		return repotx.Auth{}, fmt.Errorf("encode the key: %w", err)
	}
	key := NewSecret(pem.EncodeToMemory(block))
	s.hold(key)
	sshPublic, err := ssh.NewPublicKey(public)
	if err != nil {
		return repotx.Auth{}, fmt.Errorf("encode the public key: %w", err)
	}
	vault, err := s.client.as(s.token, 2)
	if err != nil {
		return repotx.Auth{}, err
	}
	lifetime := min(route.TTLSeconds, int(s.ttl/time.Second))
	answer, err := vault.Logical().WriteWithContext(ctx, route.Path, map[string]any{
		"public_key": string(ssh.MarshalAuthorizedKey(sshPublic)), "valid_principals": route.User,
		"cert_type": "user", "ttl": strconv.Itoa(lifetime) + "s",
	})
	if err != nil {
		return repotx.Auth{}, fmt.Errorf("sign at %s: %w", route.Path, err)
	}
	if answer == nil {
		return repotx.Auth{}, fmt.Errorf("sign at %s: the answer is empty", route.Path)
	}
	signed, _ := answer.Data["signed_key"].(string)
	if err := checkCertificate(signed, sshPublic, route.User, time.Now().Add(time.Duration(lifetime)*time.Second)); err != nil {
		return repotx.Auth{}, fmt.Errorf("sign at %s: %w", route.Path, err)
	}
	return repotx.NewSSHCertificateAuth(route.User, key.Reveal(), []byte(signed))
}

// certificateSlack is by how much Vault's clock may be ahead of ours.
const certificateSlack = time.Minute

// checkCertificate compares the certificate with what was asked for: this key, this one principal, no longer life.
func checkCertificate(signed string, key ssh.PublicKey, user string, notAfter time.Time) error {
	public, _, _, _, err := ssh.ParseAuthorizedKey([]byte(signed))
	if err != nil {
		return errors.New("the answer holds no certificate")
	}
	certificate, ok := public.(*ssh.Certificate)
	switch {
	case !ok || certificate.CertType != ssh.UserCert || !slices.Equal(certificate.Key.Marshal(), key.Marshal()):
		return errors.New("the answer is not a user certificate of our key")
	case !slices.Equal(certificate.ValidPrincipals, []string{user}):
		return errors.New("the certificate is for other principals than were asked for")
	case certificate.ValidBefore > uint64(notAfter.Add(certificateSlack).Unix()):
		return errors.New("the certificate lives longer than was asked for")
	default:
		return nil
	}
}

// SigningKey acquires the Ed25519 key that signs evidence: a PKCS #8 private key in PEM. It never leaves the worker. Refusals
// and failures are those of Read.
func (s *Session) SigningKey(ctx context.Context, route SigningRoute) (ed25519.PrivateKey, error) {
	if err := s.declared(route.Validate(), route.Policy, route.TTLSeconds); err != nil {
		return nil, s.record(route.Revision, targetWorker, outcomeRefused, evidence.CodeCredentialUndeclared, err)
	}
	key, err := s.signingKey(ctx, route)
	if err != nil {
		return nil, s.record(route.Revision, targetWorker, outcomeFailed, evidence.CodeCredentialFailed, err)
	}
	return key, s.record(route.Revision, targetWorker, outcomeReleased, "", nil)
}

func (s *Session) signingKey(ctx context.Context, route SigningRoute) (ed25519.PrivateKey, error) {
	fields, err := s.readFields(ctx, route.Path)
	if err != nil {
		return nil, err
	}
	value, err := s.field(fields, route.Field)
	if err != nil {
		return nil, err
	}
	block, rest := pem.Decode(value.Reveal())
	if block == nil || len(rest) > 0 {
		return nil, errors.New("the signing key is not one PEM block")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("the signing key is not PKCS #8")
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, errors.New("the signing key is not Ed25519")
	}
	return key, nil
}
