package credential

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// checkTTL is how long the tokens of a readiness check live at most.
const checkTTL = 30 * time.Second

// unrecorded is the ledger of a check: its tokens end by themselves within checkTTL.
type unrecorded struct{}

func (unrecorded) RecordToken(context.Context, Token) error   { return nil }
func (unrecorded) TokenRevoked(context.Context, string) error { return nil }

// CheckRoute shows that a route works: that a token with its policy reads the value, that it is gone afterwards, and that the
// worker's own token cannot read it. The value is dropped unused. (A7, A31)
func (c *Client) CheckRoute(ctx context.Context, owner string, route Route) error {
	if err := c.checkOwnCannotRead(ctx, route.Path); err != nil {
		return err
	}
	return c.withCheck(ctx, owner, route.Policy, route.TTLSeconds, func(session *Session) error {
		_, err := session.Read(ctx, route)
		return err
	})
}

// CheckPublishRoute is CheckRoute for a publish route. For a certificate it has one signed.
func (c *Client) CheckPublishRoute(ctx context.Context, owner string, route PublishRoute) error {
	if route.Kind != PublishSSHCertificate {
		if err := c.checkOwnCannotRead(ctx, route.Path); err != nil {
			return err
		}
	}
	return c.withCheck(ctx, owner, route.Policy, route.TTLSeconds, func(session *Session) error {
		_, err := session.Publish(ctx, route)
		return err
	})
}

// CheckSigningRoute is CheckRoute for the route of the signing key.
func (c *Client) CheckSigningRoute(ctx context.Context, owner string, route SigningRoute) error {
	if err := c.checkOwnCannotRead(ctx, route.Path); err != nil {
		return err
	}
	return c.withCheck(ctx, owner, route.Policy, route.TTLSeconds, func(session *Session) error {
		key, err := session.SigningKey(ctx, route)
		clear(key)
		return err
	})
}

func (c *Client) withCheck(ctx context.Context, owner, policy string, ttlSeconds int, use func(*Session) error) error {
	ttl := min(checkTTL, time.Duration(ttlSeconds)*time.Second)
	session, err := c.Begin(ctx, Holder{Run: "check", Owner: owner, Purpose: PurposeCheck}, []string{policy}, ttl, unrecorded{})
	if err != nil {
		return err
	}
	defer session.Wipe()
	err = use(session)
	revoking, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonWithin)
	defer cancel()
	return errors.Join(err, session.Revoke(revoking))
}

// checkOwnCannotRead shows that the worker's own token is refused at a secret's path.
func (c *Client) checkOwnCannotRead(ctx context.Context, path string) error {
	vault, err := c.worker()
	if err != nil {
		return err
	}
	_, err = vault.Logical().ReadWithContext(ctx, path)
	switch {
	case err == nil:
		return fmt.Errorf("vault: the worker's own token can read %s", path)
	case says(err, "permission denied", http.StatusForbidden):
		return nil
	default:
		return fmt.Errorf("vault: read %s as the worker: %w", path, err)
	}
}
