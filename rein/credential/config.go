package credential

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"time"
)

// Config says which Vault, as whom, and on which token role. Nothing is taken from the process's environment.
type Config struct {
	// Address is Vault's base URL. It is https, or http on a loopback address.
	Address string `json:"address"`
	// CAFile holds the PEM certificates Vault's own must descend from; without it the system's roots are used.
	CAFile string `json:"ca_file,omitempty"`
	// TokenFile holds the worker's token. Exactly one of TokenFile and AppRole is given.
	TokenFile string `json:"token_file,omitempty"`
	// AppRole is the worker's login.
	AppRole *AppRole `json:"app_role,omitempty"`
	// TokenRole is the token role that child tokens are created on. It must be an orphan role, so that the end of the
	// worker's own token does not end the sessions of its runs.
	TokenRole string `json:"token_role"`
	// TimeoutSeconds bounds one request, 1 to 60; zero means 10.
	TimeoutSeconds int `json:"timeout_seconds,omitempty"`
}

// AppRole names the files of an AppRole login.
type AppRole struct {
	// Mount is where the auth method is mounted; empty means approle.
	Mount      string `json:"mount,omitempty"`
	RoleIDFile string `json:"role_id_file"`
	// SecretIDFile holds the secret id, or the wrapping token that yields it once.
	SecretIDFile string `json:"secret_id_file"`
	// Wrapped says that SecretIDFile holds a wrapping token.
	Wrapped bool `json:"wrapped,omitempty"`
}

var mountForm = regexp.MustCompile(`^[A-Za-z0-9_-]+(/[A-Za-z0-9_-]+)*$`)

func (c Config) withDefaults() Config {
	if c.TimeoutSeconds == 0 {
		c.TimeoutSeconds = 10
	}
	if c.AppRole != nil && c.AppRole.Mount == "" {
		role := *c.AppRole
		role.Mount = "approle"
		c.AppRole = &role
	}
	return c
}

// Validate refuses a configuration that is not whole, or that would send tokens in the clear.
func (c Config) Validate() error {
	c = c.withDefaults()
	if err := checkAddress(c.Address); err != nil {
		return err
	}
	if (c.TokenFile == "") == (c.AppRole == nil) {
		return errors.New("vault: exactly one of token_file and app_role must be given")
	}
	if r := c.AppRole; r != nil && (r.RoleIDFile == "" || r.SecretIDFile == "" || !mountForm.MatchString(r.Mount)) {
		return errors.New("vault: app_role needs role_id_file, secret_id_file and a plain mount")
	}
	if !policyForm.MatchString(c.TokenRole) {
		return errors.New("vault: token_role is not the name of a token role")
	}
	if c.TimeoutSeconds < 1 || c.TimeoutSeconds > 60 {
		return errors.New("vault: timeout_seconds is not between 1 and 60")
	}
	return nil
}

func checkAddress(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("vault: address is not a plain URL")
	}
	if u.Scheme == "https" {
		return nil
	}
	ip, err := netip.ParseAddr(u.Hostname())
	if u.Scheme == "http" && (u.Hostname() == "localhost" || err == nil && ip.IsLoopback()) {
		return nil
	}
	return errors.New("vault: address is not https, and not http on loopback")
}

// transport is a connection pool that trusts what the configuration says and uses no proxy.
func (c Config) transport() (*http.Transport, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("vault: read ca_file: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, errors.New("vault: ca_file holds no certificate")
		}
	}
	timeout := time.Duration(c.TimeoutSeconds) * time.Second
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: timeout, KeepAlive: 15 * time.Second}).DialContext,
		TLSClientConfig:     config,
		TLSHandshakeTimeout: timeout,
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: 8,
		IdleConnTimeout:     30 * time.Second,
	}, nil
}

// maxSecretFile bounds the files a login is read from, in bytes.
const maxSecretFile = 8 << 10

// readSecretFile reads a token or an id. A file that everyone on the machine may read or write is refused.
func readSecretFile(name string) (Secret, error) {
	file, err := os.Open(name)
	if err != nil {
		return Secret{}, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return Secret{}, err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o007 != 0 {
		return Secret{}, fmt.Errorf("%s: not a regular file closed to other users", name)
	}
	data, err := io.ReadAll(io.LimitReader(file, maxSecretFile+1))
	if err != nil {
		return Secret{}, err
	}
	value := bytes.TrimSpace(data)
	if len(data) > maxSecretFile || len(value) == 0 || bytes.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return Secret{}, fmt.Errorf("%s: holds no single token or id", name)
	}
	return NewSecret(value), nil
}
