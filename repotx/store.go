package repotx

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Config says where baselines are cached and how much one conversation with a remote may take. Zero fields take defaults.
type Config struct {
	// CacheDir holds fetched baselines, shared by all workers of one machine. Required; made with mode 0700.
	CacheDir string
	// CacheBytes bounds the cache on disk, and so a single baseline. Default 8 GiB.
	CacheBytes int64
	// Timeout bounds one exchange with a remote. Default 2 minutes.
	Timeout time.Duration
	// FetchTimeout bounds fetching one baseline. Default 10 minutes.
	FetchTimeout time.Duration
	// PackBytes bounds the pack of one commit, which is stored with its intent. Default 64 MiB.
	PackBytes int64
	// HistoryBytes bounds what is fetched to find out whether a branch holds a commit. Default 64 MiB.
	HistoryBytes int64
	// CA and KnownHosts are the deployment's, used for an Auth that brings none of its own.
	CA, KnownHosts []byte
}

// maxAdvertisementBytes bounds the refs that a remote may list.
const maxAdvertisementBytes = 128 << 20

func (c Config) withDefaults() Config {
	if c.CacheBytes == 0 {
		c.CacheBytes = 8 << 30
	}
	if c.Timeout == 0 {
		c.Timeout = 2 * time.Minute
	}
	if c.FetchTimeout == 0 {
		c.FetchTimeout = 10 * time.Minute
	}
	if c.PackBytes == 0 {
		c.PackBytes = 64 << 20
	}
	if c.HistoryBytes == 0 {
		c.HistoryBytes = 64 << 20
	}
	return c
}

// Store holds what transactions on any repository share: the cache of baselines and the bounds.
type Store struct {
	config Config
	cache  *cache
}

// Open prepares the cache folder and removes what crashed fetches left in it. Stores of several processes may share it.
func Open(ctx context.Context, config Config) (*Store, error) {
	config = config.withDefaults()
	if config.CacheDir == "" || !filepath.IsAbs(config.CacheDir) {
		return nil, errors.New("repotx: the cache folder must be an absolute path")
	}
	if err := os.MkdirAll(config.CacheDir, 0o700); err != nil {
		return nil, fmt.Errorf("repotx: making the cache folder: %w", err)
	}
	c := &cache{dir: config.CacheDir, bytes: config.CacheBytes}
	if err := c.sweep(ctx); err != nil {
		return nil, fmt.Errorf("repotx: sweeping the cache: %w", err)
	}
	return &Store{config: config, cache: c}, nil
}

// Remote is one repository, reached with one credential. Its methods may be called from several goroutines.
type Remote struct {
	store *Store
	repo  Repository
	auth  Auth
}

// Remote names a repository and the credential to reach it with. Nothing is contacted.
func (s *Store) Remote(repo Repository, auth Auth) *Remote {
	if len(auth.CA) == 0 {
		auth.CA = s.config.CA
	}
	if len(auth.KnownHosts) == 0 {
		auth.KnownHosts = s.config.KnownHosts
	}
	return &Remote{store: s, repo: repo, auth: auth}
}

// Repository is the repository that the remote stands for.
func (r *Remote) Repository() Repository { return r.repo }
