// Command vault serves the real Vault core and its HTTP API on loopback, for the local stack.
//
// It holds everything in memory: when it ends, every secret, token and lease is gone. It has the engines the
// harness is tested with (kv, ssh) and the approle login, nothing else.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	kv "github.com/hashicorp/vault-plugin-secrets-kv"
	"github.com/hashicorp/vault/builtin/credential/approle"
	"github.com/hashicorp/vault/builtin/logical/ssh"
	vaulthttp "github.com/hashicorp/vault/http"
	"github.com/hashicorp/vault/sdk/helper/consts"
	"github.com/hashicorp/vault/sdk/logical"
	"github.com/hashicorp/vault/sdk/physical/inmem"
	"github.com/hashicorp/vault/vault"
)

// ready is what the server tells its starter, in a file only its owner can read.
type ready struct {
	Address   string `json:"address"`
	RootToken string `json:"root_token"`
}

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address to serve on")
	readyFile := flag.String("ready", "", "file that gets the address and the root token once the server is usable")
	flag.Parse()
	if err := serve(*listen, *readyFile); err != nil {
		fmt.Fprintln(os.Stderr, "vault:", err)
		os.Exit(1)
	}
}

func serve(listen, readyFile string) error {
	if readyFile == "" {
		return errors.New("-ready is required")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()

	core, err := newCore()
	if err != nil {
		return fmt.Errorf("create core: %w", err)
	}
	token, err := unseal(ctx, core)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	server := &http.Server{
		Handler:           vaulthttp.Handler.Handler(&vault.HandlerProperties{Core: core}),
		ReadHeaderTimeout: 10 * time.Second,
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()

	if err := writeReady(readyFile, ready{Address: "http://" + listener.Addr().String(), RootToken: token}); err != nil {
		return err
	}
	select {
	case err := <-served:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	return errors.Join(server.Close(), core.Shutdown())
}

func newCore() (*vault.Core, error) {
	logger := hclog.New(&hclog.LoggerOptions{Name: "vault", Level: hclog.Warn, Output: os.Stderr})
	storage, err := inmem.NewInmem(nil, logger)
	if err != nil {
		return nil, err
	}
	return vault.NewCore(&vault.CoreConfig{
		Physical:           storage,
		StorageType:        "inmem",
		Logger:             logger,
		DisableMlock:       true,
		LogicalBackends:    secretEngines,
		CredentialBackends: logins,
		BuiltinRegistry:    registry{},
		DefaultLeaseTTL:    time.Hour,
		MaxLeaseTTL:        24 * time.Hour,
	})
}

// unseal initialises an empty core with one key share, unseals it and returns the root token.
func unseal(ctx context.Context, core *vault.Core) (string, error) {
	seal := &vault.SealConfig{SecretShares: 1, SecretThreshold: 1}
	initialised, err := core.Initialize(ctx, &vault.InitParams{BarrierConfig: seal, RecoveryConfig: seal})
	if err != nil {
		return "", fmt.Errorf("initialise: %w", err)
	}
	for _, share := range initialised.SecretShares {
		if _, err := core.Unseal(share); err != nil {
			return "", fmt.Errorf("unseal: %w", err)
		}
	}
	if core.Sealed() {
		return "", errors.New("unseal: still sealed")
	}
	return initialised.RootToken, nil
}

// writeReady makes the file appear whole or not at all.
func writeReady(path string, r ready) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	temporary := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
	if err := os.WriteFile(temporary, data, 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}

var (
	secretEngines = map[string]logical.Factory{"kv": kv.Factory, "ssh": ssh.Factory}
	logins        = map[string]logical.Factory{"approle": approle.Factory}
)

// registry names the builtin plugins; the core looks every mount up in it.
type registry struct{}

func (registry) table(kind consts.PluginType) map[string]logical.Factory {
	switch kind {
	case consts.PluginTypeSecrets:
		return secretEngines
	case consts.PluginTypeCredential:
		return logins
	default:
		return nil
	}
}

func (r registry) Contains(name string, kind consts.PluginType) bool {
	_, ok := r.table(kind)[name]
	return ok
}

func (r registry) Get(name string, kind consts.PluginType) (func() (any, error), bool) {
	factory, ok := r.table(kind)[name]
	return func() (any, error) { return factory, nil }, ok
}

func (r registry) Keys(kind consts.PluginType) []string {
	var names []string
	for name := range r.table(kind) {
		names = append(names, name)
	}
	return names
}

func (r registry) DeprecationStatus(name string, kind consts.PluginType) (consts.DeprecationStatus, bool) {
	return consts.Supported, r.Contains(name, kind)
}
