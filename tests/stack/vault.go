package stack

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// vaultServer is the server that will be used: one that runs already, an installed one, or one that we build.
type vaultServer struct {
	address string // of a server that runs already
	token   string
	program string // of one to start
	dev     bool   // the program is a whole vault or bao, to be started in its dev mode
}

// findVault decides on the server, and builds it when there is none; the first build takes minutes. The binary is
// kept in the cache, by the digest of what it is built from.
func findVault(ctx context.Context, checkout string, say func(format string, arguments ...any)) (vaultServer, error) {
	if address := os.Getenv("VAULT_ADDR"); address != "" {
		token := os.Getenv("VAULT_TOKEN")
		if token == "" {
			return vaultServer{}, errors.New("VAULT_ADDR is set, but not VAULT_TOKEN: the stack needs a token that may configure mounts and policies")
		}
		return vaultServer{address: address, token: token}, nil
	}
	for _, name := range []string{"vault", "bao"} {
		if program, err := exec.LookPath(name); err == nil {
			return vaultServer{program: program, dev: true}, nil
		}
	}
	program, err := buildVault(ctx, filepath.Join(checkout, "tests", "vault"), say)
	return vaultServer{program: program}, err
}

func buildVault(ctx context.Context, source string, say func(format string, arguments ...any)) (string, error) {
	cache, err := CacheFolder()
	if err != nil {
		return "", err
	}
	digest := sha256.New()
	fmt.Fprintln(digest, runtime.Version())
	for _, name := range []string{"main.go", "go.mod", "go.sum"} {
		data, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(digest, "%s %d\n%s", name, len(data), data)
	}
	program := filepath.Join(cache, "vault-"+hex.EncodeToString(digest.Sum(nil)[:8]))
	if exists(program) {
		return program, nil
	}
	say("building, the first time takes about five minutes")
	began := time.Now()
	done := make(chan struct{})
	defer close(done)
	go func() {
		ticker := time.NewTicker(20 * time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				say("building for %s", time.Since(began).Round(time.Second))
			}
		}
	}()
	if err := buildStatic(ctx, source, program); err != nil {
		return "", err
	}
	say("built in %s", time.Since(began).Round(time.Second))
	return program, nil
}

// buildStatic builds the main package in a folder; the program appears whole or not at all.
func buildStatic(ctx context.Context, source, program string) error {
	temporary := fmt.Sprintf("%s.%d", program, os.Getpid())
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=", "-o", temporary, ".")
	build.Dir = source
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
	if transcript, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build in %s: %w\n%s", source, err, transcript)
	}
	return os.Rename(temporary, program)
}

// startVault starts the server, unless it runs already, and puts its root token into the state folder.
func (s *State) startVault(ctx context.Context, server vaultServer) error {
	s.Vault = Vault{
		RootTokenFile:  s.file("vault.root-token"),
		RoleIDFile:     s.file("vault.role-id"),
		SecretIDFile:   s.file("vault.secret-id"),
		SigningKeyFile: s.file("signing.pub.pem"),
		TokenRole:      tokenRole,
		Program:        server.program,
		Dev:            server.dev,
		Foreign:        server.address != "",
	}
	if s.Vault.Foreign {
		s.Vault.Address = server.address
		return writeFile(s.Vault.RootTokenFile, []byte(server.token+"\n"))
	}
	var ready struct {
		Address   string `json:"address"`
		RootToken string `json:"root_token"`
	}
	readyFile := s.file("vault-ready.json")
	if err := removeIfThere(readyFile); err != nil {
		return err
	}
	cmd := exec.Command(server.program, "-ready", readyFile)
	if server.dev {
		port, err := freePort()
		if err != nil {
			return err
		}
		ready.Address, ready.RootToken = fmt.Sprintf("http://127.0.0.1:%d", port), rand.Text()
		// The token goes by the environment, where only its owner can read it.
		cmd = exec.Command(server.program, "server", "-dev", "-dev-no-store-token", "-dev-listen-address", strings.TrimPrefix(ready.Address, "http://"))
		cmd.Env = append(os.Environ(), "VAULT_DEV_ROOT_TOKEN_ID="+ready.RootToken, "BAO_DEV_ROOT_TOKEN_ID="+ready.RootToken)
	}
	process, err := launch(cmd, s.log("vault"))
	s.Processes["vault"] = process
	if err != nil {
		return err
	}
	err = await(ctx, process, s.log("vault"), 60*time.Second, func(ctx context.Context) error {
		if ready.Address == "" {
			data, err := os.ReadFile(readyFile)
			if err != nil {
				return err
			}
			if err := json.Unmarshal(data, &ready); err != nil {
				return err
			}
		}
		client, err := vaultClient(ready.Address, ready.RootToken)
		if err != nil {
			return err
		}
		health, err := client.Sys().HealthWithContext(ctx)
		if err == nil && (health.Sealed || !health.Initialized) {
			err = errors.New("sealed")
		}
		return err
	})
	if err != nil {
		return err
	}
	if server.dev {
		// The dev mode prints its root token.
		if err := os.Truncate(s.log("vault"), 0); err != nil {
			return err
		}
	}
	s.Vault.Address = ready.Address
	return errors.Join(removeIfThere(readyFile), writeFile(s.Vault.RootTokenFile, []byte(ready.RootToken+"\n")))
}

// stopVault ends the server; from one that was there before, it takes away what the stack put there.
func (s *State) stopVault(ctx context.Context) error {
	if s.Vault.Foreign {
		return s.unconfigureVault(ctx)
	}
	return s.Processes["vault"].Stop(syscall.SIGTERM, 5*time.Second)
}
