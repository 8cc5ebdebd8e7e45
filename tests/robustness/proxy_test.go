package robustness_test

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/tests/deployment"
)

// proxy is a way on which faults happen.
type proxy struct {
	*deployment.Proxy
	busy sync.Mutex // a fault is at it
}

// openProxies opens ways to Postgres, Vault and git, in that order.
func (s *soak) openProxies() {
	database, err := s.Config.Database.URL()
	require.NoError(s.t, err)
	for _, to := range []struct{ name, address string }{
		{"database", database}, {"vault", s.Stack.Vault.Address}, {"git", s.Stack.Git.HTTP},
	} {
		s.proxies = append(s.proxies, &proxy{Proxy: deployment.OpenProxy(s.t, to.name, to.address)})
	}
}

// configure writes a configuration whose ways to Postgres, Vault and git are those with faults.
func (s *soak) configure(name string) string {
	direct, err := s.Config.Database.URL()
	require.NoError(s.t, err)
	database, err := url.Parse(s.proxies[0].Through(s.t, direct))
	require.NoError(s.t, err)
	query := database.Query()
	query.Set("application_name", disturbed)
	database.RawQuery = query.Encode()
	require.NoError(s.t, os.WriteFile(filepath.Join(s.Dir, "disturbed.url"), []byte(database.String()), 0o600))
	vault := s.Stack.Vault.Address
	return s.Configure(s.t, name, "database.url", "disturbed.url", "drain_seconds: 30", "drain_seconds: 90", vault, s.proxies[1].Through(s.t, vault))
}

// disturbed is how connections to the database that faults may end call themselves.
const disturbed = "disturbed"

// poison puts a toxic on the proxy for a while.
func (p *proxy) poison(ctx context.Context, kind, stream string, attributes map[string]int64, d time.Duration) error {
	if err := p.Poison(kind, stream, attributes); err != nil {
		return err
	}
	pause(ctx, d)
	return p.Heal(ctx, kind, stream)
}

// cut ends all connections and takes none for a while.
func (p *proxy) cut(ctx context.Context, d time.Duration) error {
	p.Stop()
	pause(ctx, d)
	return p.Start()
}
