package credential

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/vault/api"
)

// Client is a worker's connection to Vault. It is safe for concurrent use. Its own token stays alive as long as Run runs.
type Client struct {
	config    Config
	transport *http.Transport
	secretID  Secret // unwrapped once, kept for logins to come

	mu    sync.Mutex
	own   ownToken
	fault error // why the last renewal failed; nil when it did not
}

// ownToken is the worker's own token and what Vault said about it.
type ownToken struct {
	value     Secret
	ttl       time.Duration // zero: it does not expire
	expires   time.Time
	renewable bool
}

// Open logs in. It fails when Vault cannot be reached, when the login is refused, and when the token that results is a
// root token.
func Open(ctx context.Context, config Config) (*Client, error) {
	config = config.withDefaults()
	if err := config.Validate(); err != nil {
		return nil, err
	}
	transport, err := config.transport()
	if err != nil {
		return nil, err
	}
	c := &Client{config: config, transport: transport}
	own, err := c.login(ctx)
	if err != nil {
		transport.CloseIdleConnections()
		return nil, err
	}
	c.own = own
	return c, nil
}

// Format names the server and nothing else, whatever the verb: no formatting walks the fields.
func (c *Client) Format(state fmt.State, _ rune) {
	_, _ = fmt.Fprintf(state, "vault at %s", c.config.Address)
}

// Close gives up a token that Open or Run got by a login; one that came from a file is its owner's and is left alone.
func (c *Client) Close(ctx context.Context) error {
	defer c.transport.CloseIdleConnections()
	own := c.current()
	defer own.value.Wipe()
	defer c.secretID.Wipe()
	if c.config.AppRole == nil {
		return nil
	}
	vault, err := c.as(own.value, 2)
	if err != nil {
		return err
	}
	if err := vault.Auth().Token().RevokeSelfWithContext(ctx, ""); err != nil {
		return fmt.Errorf("vault: revoke the worker's own token: %w", err)
	}
	return nil
}

// Health is nil while the worker's own token is alive and its last renewal succeeded.
func (c *Client) Health(now time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.own.ttl > 0 && !now.Before(c.own.expires) {
		return errors.Join(errors.New("vault: the worker's own token has expired"), c.fault)
	}
	return c.fault
}

func (c *Client) current() ownToken {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.own
}

// worker is Vault as the worker itself.
func (c *Client) worker() (*api.Client, error) { return c.as(c.current().value, 2) }

// as is Vault as the holder of token and as nobody else. The library takes token, namespace and headers from the process's
// environment; all three are taken back.
func (c *Client) as(token Secret, retries int) (*api.Client, error) {
	vault, err := api.NewClient(&api.Config{
		Address: c.config.Address,
		HttpClient: &http.Client{
			Transport:     c.transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		Timeout:      time.Duration(c.config.TimeoutSeconds) * time.Second,
		MaxRetries:   retries,
		MinRetryWait: 100 * time.Millisecond,
		MaxRetryWait: time.Second,
	})
	if err != nil {
		return nil, fmt.Errorf("vault: %w", err)
	}
	vault.ClearNamespace()
	vault.SetHeaders(http.Header{api.RequestHeaderName: {"true"}})
	vault.SetToken(string(token.Reveal()))
	return vault, nil
}

// login gets the worker's own token from its file or by AppRole.
func (c *Client) login(ctx context.Context) (ownToken, error) {
	if c.config.AppRole != nil {
		return c.loginAppRole(ctx)
	}
	token, err := readSecretFile(c.config.TokenFile)
	if err != nil {
		return ownToken{}, fmt.Errorf("vault: read token_file: %w", err)
	}
	return c.examine(ctx, token)
}

func (c *Client) loginAppRole(ctx context.Context) (ownToken, error) {
	role := c.config.AppRole
	roleID, err := readSecretFile(role.RoleIDFile)
	if err != nil {
		return ownToken{}, fmt.Errorf("vault: read role_id_file: %w", err)
	}
	secretID, err := c.loginSecret(ctx)
	if err != nil {
		return ownToken{}, err
	}
	vault, err := c.as(Secret{}, 2)
	if err != nil {
		return ownToken{}, err
	}
	answer, err := vault.Logical().WriteWithContext(ctx, "auth/"+role.Mount+"/login", map[string]any{
		"role_id": string(roleID.Reveal()), "secret_id": string(secretID.Reveal()),
	})
	if err != nil {
		return ownToken{}, fmt.Errorf("vault: log in by AppRole: %w", err)
	}
	if answer == nil || answer.Auth == nil || answer.Auth.ClientToken == "" {
		return ownToken{}, errors.New("vault: log in by AppRole: the answer holds no token")
	}
	return c.examine(ctx, NewSecret([]byte(answer.Auth.ClientToken)))
}

// loginSecret returns the secret id. A wrapped one is unwrapped the first time and kept: its wrapping token is good once.
func (c *Client) loginSecret(ctx context.Context) (Secret, error) {
	role := c.config.AppRole
	if !c.secretID.Empty() {
		return c.secretID, nil
	}
	secret, err := readSecretFile(role.SecretIDFile)
	if err != nil {
		return Secret{}, fmt.Errorf("vault: read secret_id_file: %w", err)
	}
	if !role.Wrapped {
		return secret, nil
	}
	vault, err := c.as(secret, 0)
	if err != nil {
		return Secret{}, err
	}
	// A wrapping token that someone else made would let in a secret id of theirs.
	wrapping, err := vault.Logical().WriteWithContext(ctx, "sys/wrapping/lookup", map[string]any{"token": string(secret.Reveal())})
	if err != nil {
		return Secret{}, fmt.Errorf("vault: look up the wrapped secret id: %w", err)
	}
	origin := ""
	if wrapping != nil {
		origin, _ = wrapping.Data["creation_path"].(string)
	}
	if !strings.HasPrefix(origin, "auth/"+role.Mount+"/role/") || !strings.HasSuffix(origin, "/secret-id") {
		return Secret{}, errors.New("vault: the wrapped secret id was not made by the AppRole mount")
	}
	unwrapped, err := vault.Logical().UnwrapWithContext(ctx, "")
	if err != nil {
		return Secret{}, fmt.Errorf("vault: unwrap the secret id: %w", err)
	}
	if unwrapped == nil {
		return Secret{}, errors.New("vault: unwrap the secret id: the answer is empty")
	}
	value, ok := unwrapped.Data["secret_id"].(string)
	if !ok || value == "" {
		return Secret{}, errors.New("vault: unwrap the secret id: the answer holds none")
	}
	c.secretID = NewSecret([]byte(value))
	return c.secretID, nil
}

// examine asks Vault what a token of the worker's own is.
func (c *Client) examine(ctx context.Context, token Secret) (ownToken, error) {
	vault, err := c.as(token, 2)
	if err != nil {
		return ownToken{}, err
	}
	asked := time.Now()
	answer, err := vault.Auth().Token().LookupSelfWithContext(ctx)
	if err != nil {
		return ownToken{}, fmt.Errorf("vault: look up the worker's own token: %w", err)
	}
	policies, err := answer.TokenPolicies()
	if err != nil {
		return ownToken{}, fmt.Errorf("vault: policies of the worker's own token: %w", err)
	}
	if slices.Contains(policies, "root") {
		return ownToken{}, errors.New("vault: the worker's own token is a root token")
	}
	ttl, err := answer.TokenTTL()
	if err != nil {
		return ownToken{}, fmt.Errorf("vault: lifetime of the worker's own token: %w", err)
	}
	renewable, err := answer.TokenIsRenewable()
	if err != nil {
		return ownToken{}, fmt.Errorf("vault: renewal of the worker's own token: %w", err)
	}
	return ownToken{value: token, ttl: ttl, expires: asked.Add(ttl), renewable: renewable}, nil
}
