package repotx

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// userAgent begins with "git/" because some hosts serve only clients that do.
const userAgent = "git/2.39 (harness)"

// httpTransport speaks smart http. It ignores proxy variables, follows no redirect (a credential and a repository's
// identity belong to one address) and sends the credential with the first request.
type httpTransport struct {
	base   string
	auth   Auth
	client *http.Client
}

func newHTTPTransport(u *url.URL, auth Auth) (*httpTransport, error) {
	roots, err := auth.roots()
	if err != nil {
		return nil, err
	}
	return &httpTransport{
		base: u.String(),
		auth: auth,
		client: &http.Client{
			Transport: &http.Transport{
				DialContext:         (&net.Dialer{Timeout: 15 * time.Second}).DialContext,
				TLSClientConfig:     &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
				TLSHandshakeTimeout: 15 * time.Second,
				ForceAttemptHTTP2:   true,
				MaxIdleConns:        2,
				IdleConnTimeout:     10 * time.Second,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

func (t *httpTransport) close() { t.client.CloseIdleConnections() }

func (t *httpTransport) open(ctx context.Context, svc service) (conversation, error) {
	return &httpConversation{httpTransport: t, ctx: ctx, svc: svc}, nil
}

type httpConversation struct {
	*httpTransport
	ctx  context.Context
	svc  service
	body io.Closer
}

func (c *httpConversation) close() {
	if c.body != nil {
		_ = c.body.Close() // the answer was read or given up; closing only frees the connection
	}
}

func (c *httpConversation) advertisement(limit int64) (Advertisement, error) {
	req, err := http.NewRequestWithContext(c.ctx, http.MethodGet, c.base+"/info/refs?service="+string(c.svc), nil)
	if err != nil {
		return Advertisement{}, fmt.Errorf("asking for refs: %w", err)
	}
	body, err := c.do(req, "application/x-"+string(c.svc)+"-advertisement")
	if err != nil {
		return Advertisement{}, fmt.Errorf("asking for refs: %w", err)
	}
	defer c.close()
	adv, err := readAdvertisement(&bounded{body, limit})
	if err != nil {
		return Advertisement{}, unreachable(fmt.Errorf("reading the advertised refs: %w", err))
	}
	return adv, nil
}

func (c *httpConversation) exchange(limit int64, parts ...[]byte) (io.Reader, error) {
	readers := make([]io.Reader, len(parts))
	length := int64(0)
	for i, p := range parts {
		readers[i] = bytes.NewReader(p)
		length += int64(len(p))
	}
	req, err := http.NewRequestWithContext(c.ctx, http.MethodPost, c.base+"/"+string(c.svc), io.MultiReader(readers...))
	if err != nil {
		return nil, fmt.Errorf("sending to %s: %w", c.svc, err)
	}
	// A known length keeps the request out of chunked encoding, which some hosts refuse. There is no GetBody: a request
	// that was sent is never sent again by the client.
	req.ContentLength = length
	req.Header.Set("Content-Type", "application/x-"+string(c.svc)+"-request")
	req.Header.Set("Accept", "application/x-"+string(c.svc)+"-result")
	body, err := c.do(req, "application/x-"+string(c.svc)+"-result")
	if err != nil {
		return nil, fmt.Errorf("sending to %s: %w", c.svc, err)
	}
	return &bounded{body, limit}, nil
}

func (c *httpConversation) do(req *http.Request, contentType string) (io.Reader, error) {
	req.Header.Set("User-Agent", userAgent)
	if c.auth.Kind() == AuthBasic {
		req.SetBasicAuth(c.auth.username, c.auth.password())
	}
	res, err := c.client.Do(req)
	if err != nil {
		return nil, unreachable(err)
	}
	c.body = res.Body
	switch {
	case res.StatusCode == http.StatusOK:
	case res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusForbidden || res.StatusCode == http.StatusNotFound:
		c.close()
		return nil, denied(fmt.Errorf("the remote answered %s", res.Status))
	case res.StatusCode >= 300 && res.StatusCode < 400:
		c.close()
		return nil, unreachable(errors.New("the remote redirects; redirects are not followed, so name the address it points to"))
	default:
		c.close()
		return nil, unreachable(fmt.Errorf("the remote answered %s", res.Status))
	}
	if got := res.Header.Get("Content-Type"); !strings.EqualFold(got, contentType) {
		c.close()
		return nil, unreachable(fmt.Errorf("the remote's answer is of type %q, not %q: not a smart git server", got, contentType))
	}
	return res.Body, nil
}
