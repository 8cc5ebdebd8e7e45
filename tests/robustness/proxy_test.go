package robustness_test

import (
	"context"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

// proxy is a way on which faults happen.
type proxy struct {
	*toxiproxy.Proxy
	busy sync.Mutex // a fault is at it
}

// openProxies opens ways to Postgres, Vault and git, in that order.
func (s *soak) openProxies() {
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	database, err := s.Config.Database.URL()
	require.NoError(s.t, err)
	for _, to := range []struct{ name, address string }{
		{"database", database}, {"vault", s.Stack.Vault.Address}, {"git", s.Stack.Git.HTTP},
	} {
		address, err := url.Parse(to.address)
		require.NoError(s.t, err)
		p := &proxy{Proxy: toxiproxy.NewProxy(server, to.name, "127.0.0.1:0", address.Host)}
		require.NoError(s.t, p.Start())
		s.t.Cleanup(p.Stop)
		s.proxies = append(s.proxies, p)
	}
}

// through is an address by way of a proxy.
func (p *proxy) through(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	u.Host = p.Listen
	return u.String()
}

// configure writes a configuration whose ways to Postgres, Vault and git are those with faults.
func (s *soak) configure(name string) string {
	direct, err := s.Config.Database.URL()
	require.NoError(s.t, err)
	database, err := url.Parse(s.proxies[0].through(direct))
	require.NoError(s.t, err)
	query := database.Query()
	query.Set("application_name", disturbed)
	database.RawQuery = query.Encode()
	require.NoError(s.t, os.WriteFile(filepath.Join(s.Dir, "disturbed.url"), []byte(database.String()), 0o600))
	vault := s.Stack.Vault.Address
	return s.Configure(s.t, name, "database.url", "disturbed.url", "drain_seconds: 30", "drain_seconds: 90", vault, s.proxies[1].through(vault))
}

// disturbed is how connections to the database that faults may end call themselves.
const disturbed = "disturbed"

// poison puts a toxic on the proxy for a while.
func (p *proxy) poison(ctx context.Context, kind, stream string, attributes map[string]int64, d time.Duration) error {
	data, err := json.Marshal(map[string]any{"name": kind, "type": kind, "stream": stream, "attributes": attributes})
	if err != nil {
		return err
	}
	if _, err := p.Toxics.AddToxicJson(strings.NewReader(string(data))); err != nil {
		return err
	}
	pause(ctx, d)
	return p.Toxics.RemoveToxic(context.WithoutCancel(ctx), kind)
}

// cut ends all connections and takes none for a while.
func (p *proxy) cut(ctx context.Context, d time.Duration) error {
	p.Stop()
	pause(ctx, d)
	return p.Start()
}
