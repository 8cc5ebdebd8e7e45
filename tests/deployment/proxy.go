package deployment

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

// Proxy is a way to a part of the stack on which a test makes faults. Stop takes it away, and Start brings it back at its address.
type Proxy struct{ *toxiproxy.Proxy }

// OpenProxy opens a way to the host of a URL. It ends with the test.
func OpenProxy(t testing.TB, name, to string) *Proxy {
	t.Helper()
	address, err := url.Parse(to)
	require.NoError(t, err)
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	p := &Proxy{toxiproxy.NewProxy(server, name, "127.0.0.1:0", address.Host)}
	require.NoError(t, p.Start())
	t.Cleanup(p.Stop)
	return p
}

// Through is a URL by way of the proxy.
func (p *Proxy) Through(t testing.TB, to string) string {
	t.Helper()
	u, err := url.Parse(to)
	require.NoError(t, err)
	u.Host = p.Listen
	return u.String()
}

// Poison puts a toxic on one direction, "upstream" or "downstream", of every connection.
func (p *Proxy) Poison(kind, stream string, attributes map[string]int64) error {
	data, err := json.Marshal(map[string]any{"name": kind + "_" + stream, "type": kind, "stream": stream, "attributes": attributes})
	if err != nil {
		return err
	}
	_, err = p.Toxics.AddToxicJson(strings.NewReader(string(data)))
	return err
}

// Heal takes a toxic away again.
func (p *Proxy) Heal(ctx context.Context, kind, stream string) error {
	return p.Toxics.RemoveToxic(context.WithoutCancel(ctx), kind+"_"+stream)
}
