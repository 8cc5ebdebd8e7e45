package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/rein-aharness/harness/profiles"
	"github.com/rein-aharness/harness/tests/stack"
)

const configuration = `database: {url_file: %q}
engine: {name: demo, host: %q, keepalive_seconds: 1}
vault:
  address: %q
  app_role: {role_id_file: %q, secret_id_file: %q}
  token_role: %q
signing: {path: secret/data/harness/signing, policy: harness-signing, trust_file: trust.yaml}
git: {ca_file: %q, known_hosts_file: %q, cache_dir: baselines}
worker: {id: demo-worker, concurrency: 2}
`

const definition = `version: 1
name: %s
repository: %s
base_ref: refs/heads/%s
target_ref: refs/heads/%s
task: Format every Go file with gofumpt.
profile: %s
grant:
  paths: [%q]
`

// write writes the configuration, the trust file, the profile of the shipped catalog with the image that this stack has, and two
// definitions: one that is granted every Go file, and one that is granted the Go files of one folder.
func (d *demo) write() error {
	s := d.stack
	trust, err := s.Vault.TrustFile()
	if err != nil {
		return err
	}
	profile, ref, err := demoProfile(s.Images["codemod"])
	if err != nil {
		return err
	}
	for name, content := range map[string]string{
		"harness.yaml": fmt.Sprintf(configuration, s.Postgres.URLFile, s.Docker.Host, s.Vault.Address, s.Vault.RoleIDFile,
			s.Vault.SecretIDFile, s.Vault.TokenRole, s.Git.CAFile, s.Git.KnownHostsFile),
		"trust.yaml":          trust,
		"gofumpt.yaml":        profile,
		"gofumpt-all.yaml":    fmt.Sprintf(definition, "gofumpt-all", d.url, "main", "main", ref, "**/*.go"),
		"gofumpt-narrow.yaml": fmt.Sprintf(definition, "gofumpt-narrow", d.url, "narrow", "narrow", ref, "doc/**/*.go"),
	} {
		if err := os.WriteFile(filepath.Join(d.dir, name), []byte(content), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// demoProfile is the profile of the shipped catalog with a real image, and its exact reference.
func demoProfile(image string) (document string, ref string, err error) {
	checkout, err := stack.Checkout()
	if err != nil {
		return "", "", err
	}
	data, err := os.ReadFile(filepath.Join(checkout, "configs", "catalog", "gofumpt.yaml"))
	if err != nil {
		return "", "", err
	}
	document = strings.Replace(string(data), "image: sha256:"+strings.Repeat("0", 64), "image: "+image, 1)
	parsed, err := profiles.Parse([]byte(document))
	if err != nil {
		return "", "", err
	}
	exact, err := parsed.Ref()
	return document, exact.String(), err
}

// field reads one text field of a JSON document, at its top or in its run.
func field(document []byte, name string) (string, error) {
	var fields map[string]any
	if err := json.Unmarshal(document, &fields); err != nil {
		return "", err
	}
	if run, ok := fields["run"].(map[string]any); ok {
		fields = run
	}
	value, ok := fields[name].(string)
	if !ok {
		return "", fmt.Errorf("the answer has no %s", name)
	}
	return value, nil
}
