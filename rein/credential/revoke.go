package credential

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/vault/api"
)

// ErrSweepNotAllowed says that the worker's token may not list accessors. Then the ledger is the only source of the reaper,
// and a token whose accessor was never recorded lives until its explicit maximum.
var ErrSweepNotAllowed = errors.New("vault: the worker's token may not list accessors")

// ErrStillAlive says that a revoked accessor is still known to Vault.
var ErrStillAlive = errors.New("vault: the revoked accessor is still known")

const (
	lookAgain     = 50 * time.Millisecond
	lookAgainMost = 5 * time.Second
)

// RevokeAccessor revokes a token by its accessor and returns nil only when a lookup then answered that there is no such
// accessor. An accessor that was unknown before is as good. Any other answer, a refusal included, is an error: it proves
// nothing. (A30)
func (c *Client) RevokeAccessor(ctx context.Context, accessor string) error {
	if accessor == "" {
		return errors.New("vault: revoke: the accessor is empty")
	}
	vault, err := c.worker()
	if err != nil {
		return err
	}
	if err := vault.Auth().Token().RevokeAccessorWithContext(ctx, accessor); err != nil && !accessorUnknown(err) {
		return fmt.Errorf("vault: revoke by accessor: %w", err)
	}
	// Vault answers some revocations before they are done.
	giveUp := time.Now().Add(lookAgainMost)
	for seen := false; ; seen = true {
		_, err := vault.Auth().Token().LookupAccessorWithContext(ctx, accessor)
		switch {
		case accessorUnknown(err):
			return nil
		case seen && ctx.Err() != nil:
			return errors.Join(ErrStillAlive, context.Cause(ctx))
		case err != nil && !tokenGone(err):
			return fmt.Errorf("vault: look up the revoked accessor: %w", err)
		case time.Now().After(giveUp):
			return ErrStillAlive
		}
		select {
		case <-ctx.Done():
		case <-time.After(lookAgain):
		}
	}
}

// accessorUnknown reports whether err is Vault's own word that there is no such accessor, and not a refusal, a proxy's 404
// or a broken connection.
func accessorUnknown(err error) bool {
	return says(err, "invalid accessor", http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound)
}

// tokenGone reports whether Vault found the accessor and no longer its token: a revocation about to be done.
func tokenGone(err error) bool { return says(err, "bad token", http.StatusForbidden) }

func says(err error, message string, statuses ...int) bool {
	var answer *api.ResponseError
	return errors.As(err, &answer) && !answer.RawError && slices.Contains(statuses, answer.StatusCode) &&
		slices.ContainsFunc(answer.Errors, func(text string) bool { return strings.Contains(text, message) })
}

// Found is a child token that Sweep met.
type Found struct {
	Accessor string
	Run      string
	Epoch    string
	Owner    string
	Purpose  Purpose
	Created  time.Time
}

// Sweep looks through all of Vault's tokens for those that were created on our token role for a run before the given time,
// and revokes each that needed says nobody needs any more. It finds what was created in the moment before a crash, which no
// ledger knows. It goes on after a failure, and returns how many it revoked and all failures; ErrSweepNotAllowed when the
// worker's token may not list accessors (list and sudo on auth/token/accessors). (A30)
func (c *Client) Sweep(ctx context.Context, before time.Time, needed func(context.Context, Found) (bool, error)) (revoked int, err error) {
	vault, err := c.worker()
	if err != nil {
		return 0, err
	}
	listed, err := vault.Logical().ListWithContext(ctx, "auth/token/accessors")
	if says(err, "permission denied", http.StatusForbidden) {
		return 0, ErrSweepNotAllowed
	}
	if err != nil {
		return 0, fmt.Errorf("vault: list accessors: %w", err)
	}
	if listed == nil {
		return 0, nil
	}
	accessors, ok := listed.Data["keys"].([]any)
	if !ok {
		return 0, errors.New("vault: list accessors: the answer has no keys")
	}
	var faults []error
	for _, key := range accessors {
		if ctx.Err() != nil {
			return revoked, errors.Join(append(faults, context.Cause(ctx))...)
		}
		accessor, _ := key.(string)
		did, err := c.sweepOne(ctx, vault, accessor, before, needed)
		if err != nil {
			faults = append(faults, err)
		}
		if did {
			revoked++
		}
	}
	return revoked, errors.Join(faults...)
}

func (c *Client) sweepOne(ctx context.Context, vault *api.Client, accessor string, before time.Time,
	needed func(context.Context, Found) (bool, error),
) (bool, error) {
	if accessor == "" {
		return false, errors.New("vault: list accessors: one is empty")
	}
	answer, err := vault.Auth().Token().LookupAccessorWithContext(ctx, accessor)
	if accessorUnknown(err) || tokenGone(err) {
		return false, nil // it ended since it was listed
	}
	if err != nil {
		return false, fmt.Errorf("vault: look up an accessor: %w", err)
	}
	found, ours, err := c.found(accessor, answer)
	if err != nil || !ours || !found.Created.Before(before) {
		return false, err
	}
	keep, err := needed(ctx, found)
	if err != nil || keep {
		return false, err
	}
	return true, c.RevokeAccessor(ctx, accessor)
}

// found reads a looked-up token; ours is false for one that was not created on our role for a run.
func (c *Client) found(accessor string, answer *api.Secret) (found Found, ours bool, err error) {
	if answer == nil {
		return Found{}, false, errors.New("vault: look up an accessor: the answer is empty")
	}
	meta, _ := answer.Data["meta"].(map[string]any)
	text := func(key string) string { value, _ := meta[key].(string); return value }
	if role, _ := answer.Data["role"].(string); role != c.config.TokenRole || text(metaRun) == "" {
		return Found{}, false, nil
	}
	number, _ := answer.Data["creation_time"].(json.Number)
	created, err := number.Int64()
	if err != nil {
		return Found{}, false, errors.New("vault: look up an accessor: it has no creation time")
	}
	return Found{
		Accessor: accessor, Run: text(metaRun), Epoch: text(metaEpoch), Owner: text(metaOwner),
		Purpose: Purpose(text(metaPurpose)), Created: time.Unix(created, 0).UTC(),
	}, true, nil
}
