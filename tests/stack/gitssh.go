package stack

import (
	"bytes"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// sshServer serves the same repositories over ssh: it runs git-upload-pack and git-receive-pack and nothing else.
type sshServer struct {
	root string
	// keys are the public keys that may log in as git (authorized_keys form); ca is the file of a certificate authority
	// whose user certificates for the principal git are accepted. The ca's file may appear later.
	keys   []byte
	caFile string
	host   ssh.Signer
}

func (s *sshServer) serve(listener net.Listener) error {
	for {
		connection, err := listener.Accept()
		if err != nil {
			return err
		}
		go s.handle(connection)
	}
}

func (s *sshServer) handle(connection net.Conn) {
	defer connection.Close()
	config := &ssh.ServerConfig{PublicKeyCallback: s.authenticate}
	config.AddHostKey(s.host)
	_ = connection.SetDeadline(time.Now().Add(30 * time.Second))
	server, channels, requests, err := ssh.NewServerConn(connection, config)
	if err != nil {
		return // a client that failed to log in has been told
	}
	_ = connection.SetDeadline(time.Time{})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { _ = server.Wait(); cancel() }()
	go ssh.DiscardRequests(requests)
	for offered := range channels {
		if offered.ChannelType() != "session" {
			_ = offered.Reject(ssh.UnknownChannelType, "sessions only")
			continue
		}
		channel, requests, err := offered.Accept()
		if err != nil {
			return
		}
		go s.session(ctx, channel, requests)
	}
}

func (s *sshServer) authenticate(meta ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
	if meta.User() != "git" {
		return nil, errors.New("unknown user")
	}
	checker := ssh.CertChecker{
		IsUserAuthority: func(authority ssh.PublicKey) bool {
			data, err := os.ReadFile(s.caFile)
			return err == nil && listed(data, authority)
		},
		UserKeyFallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			if !listed(s.keys, key) {
				return nil, errors.New("unknown key")
			}
			return &ssh.Permissions{}, nil
		},
	}
	return checker.Authenticate(meta, key)
}

// listed says whether the key is in a list in authorized_keys form.
func listed(list []byte, key ssh.PublicKey) bool {
	for len(bytes.TrimSpace(list)) > 0 {
		known, _, _, rest, err := ssh.ParseAuthorizedKey(list)
		if err != nil {
			return false
		}
		if subtle.ConstantTimeCompare(known.Marshal(), key.Marshal()) == 1 {
			return true
		}
		list = rest
	}
	return false
}

func (s *sshServer) session(ctx context.Context, channel ssh.Channel, requests <-chan *ssh.Request) {
	defer channel.Close()
	var protocol string
	for request := range requests {
		switch request.Type {
		case "env":
			var variable struct{ Name, Value string }
			accepted := ssh.Unmarshal(request.Payload, &variable) == nil && variable.Name == "GIT_PROTOCOL"
			if accepted {
				protocol = variable.Value
			}
			_ = request.Reply(accepted, nil)
		case "exec":
			var line struct{ Command string }
			if err := ssh.Unmarshal(request.Payload, &line); err != nil {
				_ = request.Reply(false, nil)
				return
			}
			_ = request.Reply(true, nil)
			status := s.run(ctx, channel, line.Command, protocol)
			_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{status}))
			return
		default:
			_ = request.Reply(false, nil)
		}
	}
}

func (s *sshServer) run(ctx context.Context, channel ssh.Channel, line, protocol string) uint32 {
	service, repository, err := s.parse(line)
	if err != nil {
		fmt.Fprintln(channel.Stderr(), err)
		return 128
	}
	cmd := exec.CommandContext(ctx, "git", service, repository)
	cmd.Env = append(gitServerEnvironment(), "GIT_PROTOCOL="+protocol)
	cmd.Stdout, cmd.Stderr = channel, channel.Stderr()
	// Not cmd.Stdin: Wait would then wait for a client that keeps its side open.
	input, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(channel.Stderr(), err)
		return 128
	}
	go func() {
		_, _ = io.Copy(input, channel)
		_ = input.Close()
	}()
	var ended *exec.ExitError
	switch err := cmd.Wait(); {
	case err == nil:
		return 0
	case errors.As(err, &ended) && ended.ExitCode() > 0:
		return uint32(ended.ExitCode())
	default:
		return 255
	}
}

// parse takes a command line as git clients send it: service 'path'.
func (s *sshServer) parse(line string) (service, repository string, err error) {
	command, quoted, found := strings.Cut(line, " ")
	if command == "git" {
		command, quoted, found = strings.Cut(quoted, " ")
		command = "git-" + command
	}
	name := strings.TrimPrefix(strings.Trim(quoted, "'"), "/")
	if !found || strings.ContainsAny(name, `'\`) || !filepath.IsLocal(name) {
		return "", "", fmt.Errorf("refused: %q", line)
	}
	switch command {
	case "git-upload-pack", "git-receive-pack":
		return strings.TrimPrefix(command, "git-"), filepath.Join(s.root, name), nil
	default:
		return "", "", fmt.Errorf("refused: %q", line)
	}
}
