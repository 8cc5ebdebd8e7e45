package stack

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// Files of the git servers in the state folder, all made by startGit.
const (
	gitPasswordFile   = "git.password"
	gitCAFile         = "git-ca.pem"
	gitTLSFile        = "git-tls.pem" // certificate and key of the https server
	gitSSHKeyFile     = "git-ssh-key"
	gitSSHUsersFile   = "git-ssh-key.pub"
	gitHostKeyFile    = "git-ssh-host-key"
	gitKnownHostsFile = "git-known-hosts"
	gitSSHCAFile      = "vault-ssh-ca.pub"
	gitReadyFile      = "git-ready.json"
	gitUsername       = "harness"
)

// startGit makes the keys of the git servers and starts them as one child process.
func (s *State) startGit(ctx context.Context) error {
	s.Git = GitServers{
		Root:           s.data("git"),
		Username:       gitUsername,
		PasswordFile:   s.file(gitPasswordFile),
		CAFile:         s.file(gitCAFile),
		SSHKeyFile:     s.file(gitSSHKeyFile),
		KnownHostsFile: s.file(gitKnownHostsFile),
		SSHCAFile:      s.file(gitSSHCAFile),
	}
	s.Vault.Configured = false // it holds the credentials made here
	if err := os.MkdirAll(s.Git.Root, 0o700); err != nil {
		return err
	}
	if err := writeFile(s.Git.PasswordFile, []byte(rand.Text()+"\n")); err != nil {
		return err
	}
	if err := writeCertificates(s.Git.CAFile, s.file(gitTLSFile)); err != nil {
		return err
	}
	for _, name := range []string{gitSSHKeyFile, gitHostKeyFile} {
		if err := writeSSHKey(s.file(name)); err != nil {
			return err
		}
	}
	// The program may be one that `go run` removes when it ends.
	program, err := s.keepProgram()
	if err != nil {
		return err
	}
	if err := removeIfThere(s.file(gitReadyFile)); err != nil {
		return err
	}
	process, err := launch(exec.Command(program, "serve-git", "--dir", s.Dir, "--root", s.Git.Root), s.log("git"))
	s.Processes["git"] = process
	if err != nil {
		return err
	}
	var serving gitAddresses
	if err := await(ctx, process, s.log("git"), 30*time.Second, func(context.Context) error {
		data, err := os.ReadFile(s.file(gitReadyFile))
		if err != nil {
			return err
		}
		return json.Unmarshal(data, &serving)
	}); err != nil {
		return err
	}
	s.Git.HTTP, s.Git.HTTPS, s.Git.SSH = "http://"+serving.HTTP, "https://"+serving.HTTPS, "ssh://git@"+serving.SSH
	hostKey, err := os.ReadFile(s.file(gitHostKeyFile + ".pub"))
	if err != nil {
		return err
	}
	public, _, _, _, err := ssh.ParseAuthorizedKey(hostKey)
	if err != nil {
		return err
	}
	return writeFile(s.Git.KnownHostsFile, []byte(knownhosts.Line([]string{knownhosts.Normalize(serving.SSH)}, public)+"\n"))
}

// gitAddresses is what the child tells its starter once it listens.
type gitAddresses struct{ HTTP, HTTPS, SSH string }

// ServeGit serves the repositories under root over http, https and ssh until ctx ends. The keys are those in the
// state folder; the addresses are written there.
func ServeGit(ctx context.Context, dir, root string) error {
	password, err := os.ReadFile(filepath.Join(dir, gitPasswordFile))
	if err != nil {
		return err
	}
	certificate, err := tls.LoadX509KeyPair(filepath.Join(dir, gitTLSFile), filepath.Join(dir, gitTLSFile))
	if err != nil {
		return err
	}
	hostKey, err := os.ReadFile(filepath.Join(dir, gitHostKeyFile))
	if err != nil {
		return err
	}
	host, err := ssh.ParsePrivateKey(hostKey)
	if err != nil {
		return err
	}
	users, err := os.ReadFile(filepath.Join(dir, gitSSHUsersFile))
	if err != nil {
		return err
	}
	var listeners [3]net.Listener
	for i := range listeners {
		if listeners[i], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return err
		}
	}
	handler := GitHandler(root, Auth{gitUsername, strings.TrimSpace(string(password))})
	plain := &http.Server{Handler: handler, ReadHeaderTimeout: 30 * time.Second}
	secure := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 30 * time.Second,
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
	}
	overSSH := &sshServer{root: root, keys: users, caFile: filepath.Join(dir, gitSSHCAFile), host: host}
	failed := make(chan error, 3)
	go func() { failed <- plain.Serve(listeners[0]) }()
	go func() { failed <- secure.ServeTLS(listeners[1], "", "") }()
	go func() { failed <- overSSH.serve(listeners[2]) }()

	ready, err := json.Marshal(gitAddresses{listeners[0].Addr().String(), listeners[1].Addr().String(), listeners[2].Addr().String()})
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(dir, gitReadyFile), ready); err != nil {
		return err
	}
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return errors.Join(plain.Close(), secure.Close(), listeners[2].Close())
	}
}

// keepProgram copies this program into the data folder, so that the child does not depend on where it came from.
func (s *State) keepProgram() (string, error) {
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return "", err
	}
	kept := s.data("stack")
	if err := removeIfThere(kept); err != nil {
		return "", err
	}
	return kept, os.WriteFile(kept, self, 0o700)
}

func stopGit(process Process) error { return process.Stop(syscall.SIGTERM, 5*time.Second) }

// writeCertificates makes a private CA and a server certificate of it for loopback. The CA's key is not kept.
func writeCertificates(caFile, serverFile string) error {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	now := time.Now()
	ca := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "local stack CA"},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.AddDate(1, 0, 0),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	caBytes, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	if err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	server := &x509.Certificate{
		SerialNumber: big.NewInt(2),
		Subject:      pkix.Name{CommonName: "local stack git"},
		NotBefore:    ca.NotBefore,
		NotAfter:     ca.NotAfter,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		DNSNames:     []string{"localhost"},
	}
	serverBytes, err := x509.CreateCertificate(rand.Reader, server, ca, key.Public(), caKey)
	if err != nil {
		return err
	}
	keyBytes, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	var chain bytes.Buffer
	for _, block := range []*pem.Block{{Type: "CERTIFICATE", Bytes: serverBytes}, {Type: "PRIVATE KEY", Bytes: keyBytes}} {
		if err := pem.Encode(&chain, block); err != nil {
			return err
		}
	}
	if err := writeFile(serverFile, chain.Bytes()); err != nil {
		return err
	}
	return writeFile(caFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caBytes}))
}

// writeSSHKey makes an Ed25519 key in OpenSSH form; the public half goes beside it, with the ending .pub.
func writeSSHKey(path string) error {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		return err
	}
	sshPublic, err := ssh.NewPublicKey(public)
	if err != nil {
		return err
	}
	if err := writeFile(path, pem.EncodeToMemory(block)); err != nil {
		return err
	}
	return writeFile(path+".pub", ssh.MarshalAuthorizedKey(sshPublic))
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove: %w", err)
	}
	return nil
}
