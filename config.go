package harness

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/rein-aharness/harness/internal/canonical"
	"github.com/rein-aharness/harness/queue"
	"github.com/rein-aharness/harness/rein/credential"
)

// Config is the deployment's configuration file, decoded strictly: an unknown field is an error. It names where things are
// and how long they may take; it never holds a secret value, only the paths of files and Vault routes that do.
type Config struct {
	Database  DatabaseConfig    `json:"database"`
	Engine    EngineConfig      `json:"engine"`
	Vault     credential.Config `json:"vault"`
	Signing   SigningConfig     `json:"signing"`
	Git       GitConfig         `json:"git"`
	Lease     LeaseConfig       `json:"lease"`
	Worker    WorkerConfig      `json:"worker"`
	Policy    PolicyConfig      `json:"policy"`
	Retention RetentionConfig   `json:"retention"`
	Deliver   []DeliveryConfig  `json:"deliveries"`
	// Catalog is the folder of profile documents that `harness profiles` reads. Default "catalog" beside the file.
	Catalog string `json:"catalog"`
}

// DatabaseConfig says which Postgres holds the queue.
type DatabaseConfig struct {
	// URLFile is a file that holds the connection URL, since a URL may carry a password. Required.
	URLFile string `json:"url_file"`
	// TransactionPooling says that a pooler in transaction mode (pgbouncer) stands between.
	TransactionPooling bool `json:"transaction_pooling"`
}

// EngineConfig says which Docker engine runs this worker's sandboxes.
type EngineConfig struct {
	// Name is the deployment's name for the engine. Readiness is recorded under it. Required.
	Name string `json:"name"`
	// Host is the engine's address as DOCKER_HOST writes it. Default "unix:///var/run/docker.sock".
	Host string `json:"host"`
	// KeepaliveSeconds is how often the wire is probed; a sandbox whose worker is silent for three probes ends itself.
	// Default 2.
	KeepaliveSeconds int `json:"keepalive_seconds"`
	// InitBinary is the static binary that is mounted into the sandbox as its init. Default: this executable.
	InitBinary string `json:"init_binary"`
}

// SigningConfig names the Vault route of the Ed25519 key that signs evidence, and the trust file that verifies it.
type SigningConfig struct {
	Path      string `json:"path"`       // required, e.g. secret/data/harness/signing
	Policy    string `json:"policy"`     // required: the policy that may read Path
	Field     string `json:"field"`      // of an Ed25519 key, PKCS #8 in PEM; default private_key
	Revision  string `json:"revision"`   // how evidence names the route; default signing@1.0.0
	TrustFile string `json:"trust_file"` // required: public keys with their validity
}

// GitConfig says how remotes are trusted and how much of them is cached.
type GitConfig struct {
	CAFile         string `json:"ca_file"`          // default: the system's roots
	KnownHostsFile string `json:"known_hosts_file"` // required for ssh remotes
	CacheDir       string `json:"cache_dir"`        // default: rein-aharness/baselines in the user's cache folder
	CacheBytes     int64  `json:"cache_bytes"`      // default 4 GiB
	// PackBytes bounds the pack of one accepted commit, which is stored with the intent. Default 64 MiB.
	PackBytes int64 `json:"pack_bytes"`
	// TimeoutSeconds bounds one exchange with a remote. Default 60.
	TimeoutSeconds int `json:"timeout_seconds"`
}

// LeaseConfig is the same for every worker on one database.
type LeaseConfig struct {
	TTLSeconds       int `json:"ttl_seconds"`       // default 30
	HeartbeatSeconds int `json:"heartbeat_seconds"` // default a third of the TTL
}

// WorkerConfig says how much one worker process takes on.
type WorkerConfig struct {
	// ID is the authenticated worker's name. A restarted worker of the same name owns nothing of its predecessor. Default: host name.
	ID string `json:"id"`
	// Concurrency is the number of runs at once. Default 2.
	Concurrency int `json:"concurrency"`
	// MinFreeMemoryBytes and MinFreeDiskBytes stop claiming while the machine has less. Defaults 512 MiB and 1 GiB.
	MinFreeMemoryBytes int64 `json:"min_free_memory_bytes"`
	MinFreeDiskBytes   int64 `json:"min_free_disk_bytes"`
	// DrainSeconds is how long a stopping worker lets its sessions go on. Default 600.
	DrainSeconds int `json:"drain_seconds"`
}

// PolicyConfig holds the deployment's waivers. Each is visible in the evidence of every run it touches.
type PolicyConfig struct {
	// WaiveManifest lets unattended runs go on where the repository has no .harness.yaml at the baseline.
	WaiveManifest bool `json:"waive_manifest"`
}

// RetentionConfig says how long what is not evidence is kept.
type RetentionConfig struct {
	SessionLogDays  int   `json:"session_log_days"`  // default 30
	SessionLogBytes int64 `json:"session_log_bytes"` // per run, default 1 MiB
	// FenceHours starts at the final close and must exceed what a publish credential can live. Default 24.
	FenceHours int `json:"fence_hours"`
}

// DeliveryConfig is one webhook that is told of every run that has ended.
type DeliveryConfig struct {
	Name     string `json:"name"`     // required
	URL      string `json:"url"`      // required
	KeyFile  string `json:"key_file"` // required: the HMAC key that signs each request
	Required bool   `json:"required"` // retried until it succeeds; otherwise best-effort and labelled so
	// Records are what it is told: result, history, metrics. Default: the result alone.
	Records []queue.Record `json:"records"`
}

// ReadConfig reads, completes and validates the configuration file at path. Relative paths in it are relative to its folder.
func ReadConfig(path string) (Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("read the configuration: %w (name it with --config or HARNESS_CONFIG)", err)
	}
	var c Config
	if err := canonical.DecodeYAML(data, &c, canonical.Bounds{}); err != nil {
		return Config{}, fmt.Errorf("configuration %s: %w", path, err)
	}
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return Config{}, fmt.Errorf("configuration %s: %w", path, err)
	}
	c, err = c.withDefaults(dir)
	if err != nil {
		return Config{}, fmt.Errorf("configuration %s: %w", path, err)
	}
	if err := c.validate(); err != nil {
		return Config{}, fmt.Errorf("configuration %s: %w", path, err)
	}
	return c, nil
}

func (c Config) withDefaults(dir string) (Config, error) {
	for _, p := range []*string{
		&c.Database.URLFile, &c.Engine.InitBinary, &c.Vault.CAFile, &c.Vault.TokenFile, &c.Signing.TrustFile, &c.Git.CAFile,
		&c.Git.KnownHostsFile, &c.Git.CacheDir, &c.Catalog,
	} {
		*p = absolute(dir, *p)
	}
	if c.Vault.AppRole != nil {
		role := *c.Vault.AppRole
		role.RoleIDFile, role.SecretIDFile = absolute(dir, role.RoleIDFile), absolute(dir, role.SecretIDFile)
		c.Vault.AppRole = &role
	}
	for i := range c.Deliver {
		c.Deliver[i].KeyFile = absolute(dir, c.Deliver[i].KeyFile)
	}
	if c.Catalog == "" {
		c.Catalog = filepath.Join(dir, "catalog")
	}
	if c.Engine.Host == "" {
		c.Engine.Host = "unix:///var/run/docker.sock"
	}
	if c.Engine.InitBinary == "" {
		self, err := os.Executable()
		if err != nil {
			return c, fmt.Errorf("find this executable for engine.init_binary: %w", err)
		}
		c.Engine.InitBinary = self
	}
	if c.Git.CacheDir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return c, fmt.Errorf("find a folder for git.cache_dir: %w", err)
		}
		c.Git.CacheDir = filepath.Join(cache, "rein-aharness", "baselines")
	}
	if c.Signing.Field == "" {
		c.Signing.Field = "private_key"
	}
	if c.Signing.Revision == "" {
		c.Signing.Revision = "signing@1.0.0"
	}
	if c.Worker.ID == "" {
		host, err := os.Hostname()
		if err != nil {
			return c, fmt.Errorf("find a name for worker.id: %w", err)
		}
		c.Worker.ID = host
	}
	setDefault(&c.Engine.KeepaliveSeconds, 2)
	setDefault(&c.Git.CacheBytes, 4<<30)
	setDefault(&c.Git.PackBytes, 64<<20)
	setDefault(&c.Git.TimeoutSeconds, 60)
	setDefault(&c.Lease.TTLSeconds, 30)
	setDefault(&c.Lease.HeartbeatSeconds, max(1, c.Lease.TTLSeconds/3))
	setDefault(&c.Worker.Concurrency, 2)
	setDefault(&c.Worker.MinFreeMemoryBytes, 512<<20)
	setDefault(&c.Worker.MinFreeDiskBytes, 1<<30)
	setDefault(&c.Worker.DrainSeconds, 600)
	setDefault(&c.Retention.SessionLogDays, 30)
	setDefault(&c.Retention.SessionLogBytes, 1<<20)
	setDefault(&c.Retention.FenceHours, 24)
	return c, nil
}

func (c Config) validate() error {
	var problems []error
	need := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	need(c.Database.URLFile != "", "database.url_file is missing: name a file that holds the Postgres URL")
	need(c.Engine.Name != "", "engine.name is missing: readiness is recorded under it")
	if err := c.Vault.Validate(); err != nil {
		problems = append(problems, fmt.Errorf("vault: %w", err))
	}
	need(c.Signing.Path != "", "signing.path is missing: evidence is always signed")
	need(c.Signing.Policy != "", "signing.policy is missing")
	need(c.Signing.TrustFile != "", "signing.trust_file is missing")
	need(c.Lease.TTLSeconds >= 3 && c.Lease.TTLSeconds <= 3600, "lease.ttl_seconds must be 3 to 3600, is %d", c.Lease.TTLSeconds)
	need(c.Lease.HeartbeatSeconds >= 1 && 2*c.Lease.HeartbeatSeconds < c.Lease.TTLSeconds,
		"lease.heartbeat_seconds must be at least 1 and less than half the TTL, is %d", c.Lease.HeartbeatSeconds)
	need(c.Worker.Concurrency >= 1 && c.Worker.Concurrency <= 256, "worker.concurrency must be 1 to 256, is %d", c.Worker.Concurrency)
	need(c.Engine.KeepaliveSeconds >= 1 && c.Engine.KeepaliveSeconds <= 60, "engine.keepalive_seconds must be 1 to 60")
	need(c.Git.PackBytes >= 1<<10 && c.Git.PackBytes <= 512<<20, "git.pack_bytes must be 1 KiB to 512 MiB")
	need(c.Git.CacheBytes >= 1<<20, "git.cache_bytes must be at least 1 MiB")
	need(c.Git.TimeoutSeconds >= 1, "git.timeout_seconds must be positive")
	need(c.Retention.FenceHours >= 2, "retention.fence_hours must be at least 2: a fence must outlive any publish credential")
	need(c.Retention.SessionLogDays >= 1 && c.Retention.SessionLogBytes >= 1<<10, "retention: session_log_days and session_log_bytes must be positive")
	names := map[string]bool{}
	for _, d := range c.Deliver {
		need(d.Name != "" && d.URL != "" && d.KeyFile != "", "deliveries: each needs name, url and key_file")
		need(!names[d.Name], "deliveries: the name %q stands twice", d.Name)
		names[d.Name] = true
		for _, r := range d.Records {
			need(slices.Contains(queue.Records(), r), "deliveries: %q is no record; there are %v", r, queue.Records())
		}
	}
	return errors.Join(problems...)
}

// TTL is the lease's time to live.
func (c LeaseConfig) TTL() time.Duration { return time.Duration(c.TTLSeconds) * time.Second }

// Heartbeat is the time between two renewals of a lease.
func (c LeaseConfig) Heartbeat() time.Duration {
	return time.Duration(c.HeartbeatSeconds) * time.Second
}

func absolute(dir, p string) string {
	if p == "" || filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(dir, p)
}

func setDefault[T int | int64](p *T, v T) {
	if *p == 0 {
		*p = v
	}
}
