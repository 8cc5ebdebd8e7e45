package repotx

import (
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"
)

// AuthKind says how a remote is authenticated to.
type AuthKind string

// The kinds of authentication.
const (
	AuthNone           AuthKind = "none"
	AuthBasic          AuthKind = "basic"
	AuthSSHKey         AuthKind = "ssh_key"
	AuthSSHCertificate AuthKind = "ssh_certificate"
)

// Auth authenticates to a remote. The secret is held in a closure, so no formatting verb, encoder or logger can reach it;
// the zero value authenticates as nobody.
type Auth struct {
	// CA is a PEM bundle trusted beside the system's roots, for https. Not a secret.
	CA []byte
	// KnownHosts is the content of a known_hosts file; ssh without it is refused. Not a secret.
	KnownHosts []byte

	kind     AuthKind
	username string
	password func() string
	signer   func() ssh.Signer
}

// NewBasicAuth authenticates over http with a user name and a password or token.
func NewBasicAuth(username, password string) (Auth, error) {
	if username == "" || password == "" || strings.ContainsAny(username, ":\r\n\x00") || strings.ContainsAny(password, "\r\n\x00") {
		return Auth{}, errors.New("basic authentication needs a user name without a colon and a password, each of one line")
	}
	return Auth{kind: AuthBasic, username: username, password: func() string { return password }}, nil
}

// NewSSHKeyAuth authenticates over ssh with an unencrypted private key (OpenSSH or PEM).
func NewSSHKeyAuth(username string, privateKey []byte) (Auth, error) {
	signer, err := ssh.ParsePrivateKey(privateKey)
	if err != nil {
		return Auth{}, errors.New("the ssh private key does not parse, or has a passphrase")
	}
	return newSSHAuth(AuthSSHKey, username, signer)
}

// NewSSHCertificateAuth authenticates over ssh with a private key and the certificate that an authority signed for it.
func NewSSHCertificateAuth(username string, privateKey, certificate []byte) (Auth, error) {
	signer, err := ssh.ParsePrivateKey(privateKey)
	if err != nil {
		return Auth{}, errors.New("the ssh private key does not parse, or has a passphrase")
	}
	public, _, _, _, err := ssh.ParseAuthorizedKey(certificate)
	if err != nil {
		return Auth{}, errors.New("the ssh certificate does not parse")
	}
	cert, ok := public.(*ssh.Certificate)
	if !ok || cert.CertType != ssh.UserCert {
		return Auth{}, errors.New("the ssh certificate is not a user certificate")
	}
	certified, err := ssh.NewCertSigner(cert, signer)
	if err != nil {
		return Auth{}, fmt.Errorf("the ssh certificate does not fit its key: %w", err)
	}
	return newSSHAuth(AuthSSHCertificate, username, certified)
}

func newSSHAuth(kind AuthKind, username string, signer ssh.Signer) (Auth, error) {
	if username == "" || strings.ContainsAny(username, "\r\n\x00 ") {
		return Auth{}, errors.New("ssh authentication needs a user name")
	}
	return Auth{kind: kind, username: username, signer: func() ssh.Signer { return signer }}, nil
}

// Kind says how this authenticates.
func (a Auth) Kind() AuthKind {
	if a.kind == "" {
		return AuthNone
	}
	return a.kind
}

// String names the kind and nothing else.
func (a Auth) String() string { return string(a.Kind()) }

// GoString is String, so that no verb of fmt walks the fields.
func (a Auth) GoString() string { return a.String() }

// MarshalText encodes the kind and nothing else.
func (a Auth) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// roots is the pool for https: the system's and the CA bundle.
func (a Auth) roots() (*x509.CertPool, error) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("reading the system's roots: %w", err)
	}
	if len(a.CA) > 0 && !pool.AppendCertsFromPEM(a.CA) {
		return nil, errors.New("the CA bundle holds no certificate")
	}
	return pool, nil
}
