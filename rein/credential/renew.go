package credential

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	unexpiringCheck = 5 * time.Minute // how often a token that does not expire is looked at
	minRenewalWait  = time.Second
	maxRetryWait    = 30 * time.Second
)

// Run keeps the worker's own token alive until ctx ends, and returns the cause of that end. It renews at half of the token's
// life, logs in again when a renewal no longer lengthens it, reads a token file again when its token cannot be renewed, and
// tries again, without end, what failed: Health says what state it is in.
func (c *Client) Run(ctx context.Context) error {
	failures := 0
	for {
		timer := time.NewTimer(renewalWait(c.current(), time.Now(), failures))
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-timer.C:
		}
		own, err := c.renewed(ctx)
		c.mu.Lock()
		c.fault = err
		if err == nil {
			c.own = own
			failures = 0
		} else {
			failures++
		}
		c.mu.Unlock()
	}
}

// renewalWait is half of what is left of the token's life, or after failures a pause that doubles up to maxRetryWait.
func renewalWait(own ownToken, now time.Time, failures int) time.Duration {
	if failures > 0 {
		return min(minRenewalWait<<min(failures-1, 10), maxRetryWait)
	}
	if own.ttl == 0 {
		return unexpiringCheck
	}
	return max(own.expires.Sub(now)/2, minRenewalWait)
}

// renewed is the worker's token with a longer life, or another one.
func (c *Client) renewed(ctx context.Context) (ownToken, error) {
	own := c.current()
	if !own.renewable {
		return c.login(ctx)
	}
	vault, err := c.as(own.value, 2)
	if err != nil {
		return ownToken{}, err
	}
	asked := time.Now()
	answer, err := vault.Auth().Token().RenewSelfWithContext(ctx, 0)
	switch {
	case err != nil:
		err = fmt.Errorf("vault: renew the worker's own token: %w", err)
	case answer == nil || answer.Auth == nil:
		err = errors.New("vault: renew the worker's own token: the answer is empty")
	default:
		ttl := time.Duration(answer.Auth.LeaseDuration) * time.Second
		longer := asked.Add(ttl).After(own.expires)
		// At the end of its longest life a token is renewed for less and less; a login gives a whole one.
		if ttl >= own.ttl/2 || c.config.AppRole == nil && longer {
			return ownToken{value: own.value, ttl: own.ttl, expires: asked.Add(ttl), renewable: answer.Auth.Renewable}, nil
		}
	}
	fresh, loginErr := c.login(ctx)
	if loginErr != nil {
		return ownToken{}, errors.Join(err, loginErr)
	}
	return fresh, nil
}
