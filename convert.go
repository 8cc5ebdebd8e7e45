package harness

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/rein-aharness/harness/queue"
	"github.com/rein-aharness/harness/rein/credential"
	"github.com/rein-aharness/harness/repotx"
	"github.com/rein-aharness/harness/sandbox"
)

// URL reads the database's URL from its file.
func (c DatabaseConfig) URL() (string, error) {
	data, err := os.ReadFile(c.URLFile)
	if err != nil {
		return "", fmt.Errorf("read database.url_file: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}

// queue is the configuration in the queue's words.
func (c Config) queue(url string) queue.Config {
	out := queue.Config{
		URL: url, TTL: c.Lease.TTL(), Beat: c.Lease.Heartbeat(), FenceRetention: time.Duration(c.Retention.FenceHours) * time.Hour,
		MaxConnections: int32(8 + 2*c.Worker.Concurrency), TransactionPooling: c.Database.TransactionPooling,
	}
	for _, d := range c.Deliver {
		out.Endpoints = append(out.Endpoints, queue.Endpoint{Name: d.Name, URL: d.URL, KeyFile: d.KeyFile, Required: d.Required, Records: d.Records})
	}
	return out
}

// repos is the configuration in the words of the repository transactions.
func (c GitConfig) repos() (repotx.Config, error) {
	out := repotx.Config{
		CacheDir: c.CacheDir, CacheBytes: c.CacheBytes, PackBytes: c.PackBytes, Timeout: time.Duration(c.TimeoutSeconds) * time.Second,
	}
	for _, f := range []struct {
		name, path string
		into       *[]byte
	}{{"git.ca_file", c.CAFile, &out.CA}, {"git.known_hosts_file", c.KnownHostsFile, &out.KnownHosts}} {
		if f.path == "" {
			continue
		}
		data, err := os.ReadFile(f.path)
		if err != nil {
			return repotx.Config{}, fmt.Errorf("read %s: %w", f.name, err)
		}
		*f.into = data
	}
	return out, nil
}

// venue is the configuration in the sandbox's words.
func (c EngineConfig) venue() sandbox.Config {
	return sandbox.Config{
		Host: c.Host, Engine: c.Name, Binary: c.InitBinary, Keepalive: time.Duration(c.KeepaliveSeconds) * time.Second,
	}
}

// signingTTL bounds how long a signing key is held for one close.
const signingTTL = 2 * time.Minute

// route is the credential route of the signing key.
func (c SigningConfig) route() credential.SigningRoute {
	return credential.SigningRoute{
		Revision: c.Revision, Path: c.Path, Policy: c.Policy, Field: c.Field, TTLSeconds: int(signingTTL / time.Second),
	}
}
