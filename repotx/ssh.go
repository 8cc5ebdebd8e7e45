package repotx

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
)

// sshTransport runs the services over ssh. It reads no configuration and no agent of the user; the host's key must be known.
type sshTransport struct {
	address string
	path    string
	config  ssh.ClientConfig
}

func newSSHTransport(u *url.URL, auth Auth) (*sshTransport, error) {
	port := u.Port()
	if port == "" {
		port = "22"
	}
	address := net.JoinHostPort(u.Hostname(), port)
	hosts, err := parseKnownHosts(auth.KnownHosts)
	if err != nil {
		return nil, err
	}
	path := u.Path
	if strings.HasPrefix(path, "/~") {
		path = path[1:]
	}
	return &sshTransport{
		address: address,
		path:    path,
		config: ssh.ClientConfig{
			User:              auth.username,
			Auth:              []ssh.AuthMethod{ssh.PublicKeys(auth.signer())},
			HostKeyCallback:   hosts.HostKeyCallback(),
			HostKeyAlgorithms: hosts.HostKeyAlgorithms(address),
		},
	}, nil
}

// parseKnownHosts goes through a private file that is gone on return, because the library reads files only.
func parseKnownHosts(content []byte) (*knownhosts.HostKeyDB, error) {
	if len(content) == 0 {
		return nil, errors.New("ssh without known hosts is refused: the host could be anyone")
	}
	dir, err := os.MkdirTemp("", "harness-known-hosts-")
	if err != nil {
		return nil, fmt.Errorf("reading known hosts: %w", err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "known_hosts")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		return nil, fmt.Errorf("reading known hosts: %w", err)
	}
	db, err := knownhosts.NewDB(file)
	if err != nil {
		return nil, fmt.Errorf("reading known hosts: %w", err)
	}
	return db, nil
}

func (t *sshTransport) close() {}

func (t *sshTransport) open(ctx context.Context, svc service) (conversation, error) {
	conn, err := (&net.Dialer{Timeout: 15 * time.Second}).DialContext(ctx, "tcp", t.address)
	if err != nil {
		return nil, unreachable(err)
	}
	// Closing the connection is the one way to end a handshake or a read that hangs.
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	c := &sshConversation{ctx: ctx, stop: stop, conn: conn}
	if err := c.start(t, svc); err != nil {
		c.close()
		if ctx.Err() != nil {
			err = errors.Join(err, context.Cause(ctx))
		}
		return nil, err
	}
	return c, nil
}

type sshConversation struct {
	ctx    context.Context
	stop   func() bool
	conn   net.Conn
	client *ssh.Client
	stdin  io.WriteCloser
	stdout io.Reader
	read   bool // the advertisement was read
}

func (c *sshConversation) start(t *sshTransport, svc service) error {
	// A host that accepts and then says nothing must not hold the caller for as long as its context lives.
	if err := c.conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return unreachable(err)
	}
	config := t.config
	conn, chans, reqs, err := ssh.NewClientConn(c.conn, t.address, &config)
	if err != nil {
		if strings.Contains(err.Error(), "unable to authenticate") {
			return denied(err)
		}
		return unreachable(err)
	}
	c.client = ssh.NewClient(conn, chans, reqs)
	if err := c.conn.SetDeadline(time.Time{}); err != nil {
		return unreachable(err)
	}
	session, err := c.client.NewSession()
	if err != nil {
		return unreachable(err)
	}
	if c.stdin, err = session.StdinPipe(); err != nil {
		return unreachable(err)
	}
	if c.stdout, err = session.StdoutPipe(); err != nil {
		return unreachable(err)
	}
	if err := session.Start(string(svc) + " " + shellQuote(t.path)); err != nil {
		return unreachable(err)
	}
	return nil
}

func (c *sshConversation) advertisement(limit int64) (Advertisement, error) {
	c.read = true
	adv, err := readAdvertisement(&bounded{c.stdout, limit})
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF) && len(adv.Refs) == 0:
		return Advertisement{}, denied(errors.New("the remote ended the conversation before it advertised anything: no such repository, or no access to it"))
	case err != nil:
		return Advertisement{}, unreachable(fmt.Errorf("reading the advertised refs: %w", err))
	}
	return adv, nil
}

func (c *sshConversation) exchange(limit int64, parts ...[]byte) (io.Reader, error) {
	if !c.read {
		if _, err := c.advertisement(maxAdvertisementBytes); err != nil {
			return nil, err
		}
	}
	for _, p := range parts {
		if _, err := c.stdin.Write(p); err != nil {
			return nil, unreachable(fmt.Errorf("sending: %w", err))
		}
	}
	if err := c.stdin.Close(); err != nil {
		return nil, unreachable(fmt.Errorf("sending: %w", err))
	}
	return &bounded{c.stdout, limit}, nil
}

func (c *sshConversation) close() {
	c.stop()
	// The conversation is over or given up; what closing says has no further meaning.
	if c.client != nil {
		_ = c.client.Close()
	}
	_ = c.conn.Close()
}

// shellQuote quotes for the remote's shell the way git does.
func shellQuote(s string) string {
	return "'" + strings.NewReplacer("'", `'\''`, "!", `'\!'`).Replace(s) + "'"
}
