package canary_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"sync"
	"testing"

	"github.com/hashicorp/vault/api"
	"github.com/stretchr/testify/require"
)

// recorder stands between the deployment and Vault and keeps every token that passes: no other place has them.
type recorder struct {
	*httptest.Server
	mu     sync.Mutex
	tokens map[string]bool
}

var tokenField = regexp.MustCompile(`"client_token":\s*"([^"]{8,})"`)

func record(t *testing.T, vault string) *recorder {
	t.Helper()
	target, err := url.Parse(vault)
	require.NoError(t, err)
	r := &recorder{tokens: map[string]bool{}}
	transport := &http.Transport{}
	proxy := &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(request *httputil.ProxyRequest) {
			request.SetURL(target)
			request.Out.Header.Del("Accept-Encoding")
			r.note(request.In.Header.Get("X-Vault-Token"))
		},
		ModifyResponse: func(response *http.Response) error {
			body, err := io.ReadAll(response.Body)
			if err != nil {
				return err
			}
			for _, match := range tokenField.FindAllSubmatch(body, -1) {
				r.note(string(match[1]))
			}
			response.Body = io.NopCloser(bytes.NewReader(body))
			return nil
		},
	}
	r.Server = httptest.NewServer(proxy)
	t.Cleanup(func() {
		r.Close()
		transport.CloseIdleConnections()
	})
	return r
}

func (r *recorder) note(token string) {
	if token == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tokens[token] = true
}

// canaries are the tokens until now.
func (r *recorder) canaries() []canary {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []canary
	for _, token := range slices.Sorted(maps.Keys(r.tokens)) {
		all = append(all, canary{"Vault token", token})
	}
	return all
}

// live are the purposes of those of the tokens that belong to a run and that Vault still takes.
func (r *recorder) live(t *testing.T, root *api.Client, run string) (purposes []string) {
	t.Helper()
	for _, token := range r.canaries() {
		found, err := root.Auth().Token().LookupWithContext(t.Context(), token.value)
		var answer *api.ResponseError
		if errors.As(err, &answer) && answer.StatusCode == http.StatusForbidden && slices.Contains(answer.Errors, "bad token") {
			continue
		}
		require.NoError(t, err)
		if metadata, _ := found.Data["meta"].(map[string]any); metadata["harness_run"] == run {
			purposes = append(purposes, fmt.Sprint(metadata["harness_purpose"]))
		}
	}
	slices.Sort(purposes)
	return purposes
}
