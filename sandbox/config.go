package sandbox

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"time"
)

// Config says which engine a Venue uses and how.
type Config struct {
	Host      string        // as in DOCKER_HOST; empty is the environment's
	Engine    string        // our name for the engine: it scopes labels, readiness and the janitor
	Binary    string        // static executable that holds init-sandbox; empty is this process's own
	Keepalive time.Duration // of the wire; a dead peer is noticed within three times this. Default 5 s, at least 100 ms
	Start     time.Duration // most that creating and starting one sandbox may take. Default 60 s
	// ImageBytes is the budget for images on the engine: Load refuses what would exceed it. Default 20 GiB.
	ImageBytes int64
}

var engineForm = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// WithDefaults fills in what is not set, and refuses what cannot be.
func (c Config) WithDefaults() (Config, error) {
	if c.Binary == "" {
		self, err := os.Executable()
		if err != nil {
			return Config{}, fmt.Errorf("sandbox: own executable: %w", err)
		}
		c.Binary = self
	}
	if c.Keepalive == 0 {
		c.Keepalive = 5 * time.Second
	}
	if c.Start == 0 {
		c.Start = time.Minute
	}
	if c.ImageBytes == 0 {
		c.ImageBytes = 20 << 30
	}
	if !engineForm.MatchString(c.Engine) {
		return Config{}, fmt.Errorf("sandbox: engine name %q must be lower-case letters, digits and ._-", c.Engine)
	}
	if c.Keepalive < 100*time.Millisecond || c.Start < time.Second || c.ImageBytes < 0 {
		return Config{}, errors.New("sandbox: keepalive, start or image budget out of bounds")
	}
	return c, nil
}
