package stack

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/vault/api"
)

const (
	// tokenRole is what a worker creates its session tokens on. Its tokens are orphans: the end of a worker's own
	// token, by revocation or by a restart, does not end the sessions it started; the reaper and their explicit
	// maximum do.
	tokenRole = "harness-session"
	// workerRole is the AppRole a worker logs in with.
	workerRole = "harness-worker"
	// sshRole signs the publish keys of workers for the user git.
	sshRole = "publish"
)

// policies are all policies of the harness. A worker may make and end session tokens, and read nothing.
var policies = map[string]string{
	"harness-worker": `
path "auth/token/create/harness-session" { capabilities = ["create", "update"] }
path "auth/token/lookup-accessor"        { capabilities = ["create", "update"] }
path "auth/token/revoke-accessor"        { capabilities = ["create", "update"] }
path "auth/token/accessors"              { capabilities = ["list", "sudo"] }
path "auth/token/accessors/"             { capabilities = ["list", "sudo"] }
path "auth/token/lookup-self"            { capabilities = ["read"] }
path "auth/token/renew-self"             { capabilities = ["update"] }
path "auth/token/revoke-self"            { capabilities = ["update"] }
`,
	"harness-publish":         `path "secret/data/harness/publish/http" { capabilities = ["read"] }`,
	"harness-publish-ssh":     `path "secret/data/harness/publish/ssh" { capabilities = ["read"] }`,
	"harness-publish-sshcert": `path "ssh/sign/publish" { capabilities = ["create", "update"] }`,
	"harness-session-demo":    `path "secret/data/harness/session/demo" { capabilities = ["read"] }`,
	"harness-signing":         `path "secret/data/harness/signing" { capabilities = ["read"] }`,
}

// secretNames are the secrets of the stack under the mount secret/.
var secretNames = []string{"harness/publish/http", "harness/publish/ssh", "harness/session/demo", "harness/signing"}

// configureVault makes the mounts, policies, roles and secrets of the stack. It may run again on a server that has
// them: then the secrets get a new version.
func (s *State) configureVault(ctx context.Context) error {
	vault, err := s.Vault.root()
	if err != nil {
		return err
	}
	if err := s.mountVault(ctx, vault); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(policies)) {
		if err := vault.Sys().PutPolicyWithContext(ctx, name, policies[name]); err != nil {
			return err
		}
	}
	for _, step := range []struct {
		path string
		data map[string]any
	}{
		{"auth/token/roles/" + tokenRole, map[string]any{
			"allowed_policies_glob":   []string{"harness-*"},
			"disallowed_policies":     []string{"default", "harness-worker"},
			"orphan":                  true,
			"renewable":               false,
			"token_type":              "service",
			"token_explicit_max_ttl":  "1h",
			"token_no_default_policy": true,
		}},
		{"auth/approle/role/" + workerRole, map[string]any{
			"token_policies":          []string{"harness-worker"},
			"token_no_default_policy": true,
			"token_type":              "service",
			"token_ttl":               "20m",
			"token_max_ttl":           "24h",
			"secret_id_ttl":           "24h",
		}},
		{"ssh/roles/" + sshRole, map[string]any{
			"key_type":                "ca",
			"allow_user_certificates": true,
			"allowed_users":           "git",
			"default_user":            "git",
			"algorithm_signer":        "default",
			"ttl":                     "10m",
			"max_ttl":                 "1h",
		}},
	} {
		if _, err := vault.Logical().WriteWithContext(ctx, step.path, step.data); err != nil {
			return err
		}
	}
	if err := s.workerLogin(ctx, vault); err != nil {
		return err
	}
	if err := s.sshAuthority(ctx, vault); err != nil {
		return err
	}
	if err := s.storeSecrets(ctx, vault); err != nil {
		return err
	}
	s.Vault.Configured = true
	return nil
}

// mountVault enables the engines that are not there. One that is there with another form is refused.
func (s *State) mountVault(ctx context.Context, vault *api.Client) error {
	mounts, err := vault.Sys().ListMountsWithContext(ctx)
	if err != nil {
		return err
	}
	for _, wanted := range []struct {
		path    string
		input   api.MountInput
		version string
	}{
		{"secret/", api.MountInput{Type: "kv", Options: map[string]string{"version": "2"}}, "2"},
		{"ssh/", api.MountInput{Type: "ssh"}, ""},
	} {
		if mount, found := mounts[wanted.path]; found {
			if mount.Type != wanted.input.Type || wanted.version != "" && mount.Options["version"] != wanted.version {
				return fmt.Errorf("the mount %s is a %s of another version than the stack needs", wanted.path, mount.Type)
			}
			continue
		}
		if err := vault.Sys().MountWithContext(ctx, wanted.path, &wanted.input); err != nil {
			return err
		}
		s.Vault.Mounts = append(s.Vault.Mounts, wanted.path)
	}
	logins, err := vault.Sys().ListAuthWithContext(ctx)
	if err != nil {
		return err
	}
	if _, found := logins["approle/"]; !found {
		if err := vault.Sys().EnableAuthWithOptionsWithContext(ctx, "approle", &api.EnableAuthOptions{Type: "approle"}); err != nil {
			return err
		}
		s.Vault.Mounts = append(s.Vault.Mounts, "auth/approle/")
	}
	// A kv engine that was just mounted upgrades itself and refuses writes meanwhile.
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		_, err := vault.KVv2("secret").Put(ctx, secretNames[0], map[string]any{"username": ""})
		if err == nil || time.Now().After(deadline) || ctx.Err() != nil {
			return err
		}
	}
}

func (s *State) workerLogin(ctx context.Context, vault *api.Client) error {
	role, err := vault.Logical().ReadWithContext(ctx, "auth/approle/role/"+workerRole+"/role-id")
	if err != nil {
		return err
	}
	secret, err := vault.Logical().WriteWithContext(ctx, "auth/approle/role/"+workerRole+"/secret-id", nil)
	if err != nil {
		return err
	}
	roleID, err := text(role, "role_id")
	if err != nil {
		return err
	}
	secretID, err := text(secret, "secret_id")
	if err != nil {
		return err
	}
	return errors.Join(
		writeFile(s.Vault.RoleIDFile, []byte(roleID+"\n")),
		writeFile(s.Vault.SecretIDFile, []byte(secretID+"\n")),
	)
}

// sshAuthority makes the signing key of the ssh engine, once, and gives its public half to the ssh server.
func (s *State) sshAuthority(ctx context.Context, vault *api.Client) error {
	authority, err := vault.Logical().ReadWithContext(ctx, "ssh/config/ca")
	var response *api.ResponseError
	if errors.As(err, &response) && response.StatusCode == http.StatusBadRequest {
		authority, err = nil, nil // not made yet
	}
	if err == nil && authority == nil {
		authority, err = vault.Logical().WriteWithContext(ctx, "ssh/config/ca",
			map[string]any{"generate_signing_key": true, "key_type": "ed25519"})
	}
	if err != nil {
		return err
	}
	public, err := text(authority, "public_key")
	if err != nil {
		return err
	}
	return writeFile(s.Git.SSHCAFile, []byte(strings.TrimSpace(public)+"\n"))
}

func (s *State) storeSecrets(ctx context.Context, vault *api.Client) error {
	password, err := os.ReadFile(s.Git.PasswordFile)
	if err != nil {
		return err
	}
	sshKey, err := os.ReadFile(s.Git.SSHKeyFile)
	if err != nil {
		return err
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	privateBytes, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return err
	}
	publicBytes, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return err
	}
	secrets := map[string]map[string]any{
		"harness/publish/http": {"username": s.Git.Username, "password": strings.TrimSpace(string(password))},
		"harness/publish/ssh":  {"private_key": string(sshKey)},
		"harness/session/demo": {"token": "canary-" + rand.Text()},
		"harness/signing":      {"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: privateBytes}))},
	}
	for _, name := range secretNames {
		if _, err := vault.KVv2("secret").Put(ctx, name, secrets[name]); err != nil {
			return err
		}
	}
	return writeFile(s.Vault.SigningKeyFile, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: publicBytes}))
}

// unconfigureVault takes away from a foreign server what configureVault made: the mounts that it added, and from
// those that were there its own roles and secrets.
func (s *State) unconfigureVault(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	vault, err := s.Vault.root()
	if err != nil {
		return err
	}
	var problems []error
	remove := func(path string) {
		_, err := vault.Logical().DeleteWithContext(ctx, path)
		problems = append(problems, err)
	}
	for name := range policies {
		problems = append(problems, vault.Sys().DeletePolicyWithContext(ctx, name))
	}
	remove("auth/token/roles/" + tokenRole)
	for mount, undo := range map[string]func(){
		"secret/": func() {
			for _, name := range secretNames {
				remove("secret/metadata/" + name)
			}
		},
		"ssh/":          func() { remove("ssh/roles/" + sshRole) },
		"auth/approle/": func() { remove("auth/approle/role/" + workerRole) },
	} {
		if slices.Contains(s.Vault.Mounts, mount) {
			remove("sys/" + strings.TrimSuffix(mountPath(mount), "/"))
			continue
		}
		undo()
	}
	return errors.Join(problems...)
}

// mountPath is where a mount is administered below sys/.
func mountPath(mount string) string {
	if strings.HasPrefix(mount, "auth/") {
		return mount
	}
	return "mounts/" + mount
}

// root is a client with the root token.
func (v Vault) root() (*api.Client, error) {
	token, err := os.ReadFile(v.RootTokenFile)
	if err != nil {
		return nil, err
	}
	return vaultClient(v.Address, strings.TrimSpace(string(token)))
}

func vaultClient(address, token string) (*api.Client, error) {
	config := api.DefaultConfig()
	if config.Error != nil {
		return nil, config.Error
	}
	config.Address = address
	client, err := api.NewClient(config)
	if err != nil {
		return nil, err
	}
	client.SetToken(token)
	return client, nil
}

func text(secret *api.Secret, field string) (string, error) {
	if secret != nil {
		if value, ok := secret.Data[field].(string); ok && value != "" {
			return value, nil
		}
	}
	return "", fmt.Errorf("the answer has no %s", field)
}
