package harness

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/rein-aharness/harness/queue"
	"github.com/rein-aharness/harness/rein/credential"
	"github.com/rein-aharness/harness/repotx"
)

// chores are what one worker at a time does for the whole deployment.
func (h *Harness) chores() []queue.Chore {
	return []queue.Chore{
		{Name: "fences", Every: time.Minute, Do: h.retireFences},
		{Name: "tokens", Every: 15 * time.Second, Do: h.reapTokens},
		{Name: "lost_tokens", Every: 10 * time.Minute, Do: h.sweepTokens},
		{Name: "session_logs", Every: time.Hour, Do: h.retireLogs},
	}
}

// choreBatch bounds what one round of a chore takes on.
const choreBatch = 100

// retireFences deletes fences whose retention has ended, each by compare-and-swap.
func (h *Harness) retireFences(ctx context.Context) error {
	fences, err := h.store.DueFences(ctx, choreBatch)
	if err != nil {
		return err
	}
	var errs []error
	for _, fence := range fences {
		if err := h.retireFence(ctx, fence); err != nil {
			errs = append(errs, fmt.Errorf("fence of run %s: %w", fence.Run.ID, err))
		}
	}
	return errors.Join(errs...)
}

func (h *Harness) retireFence(ctx context.Context, fence queue.Fence) error {
	facts, err := h.store.Facts(ctx, fence.Run.ID)
	if err != nil {
		return err
	}
	contract, profile, err := h.agreedProfile(ctx, fence.Run, facts)
	if err != nil {
		return err
	}
	repository, err := repotx.Canonical(contract.Request.Repository)
	if err != nil {
		return err
	}
	err = h.withRemote(ctx, repository, profile.Publish, func(remote *repotx.Remote) error {
		return remote.DeleteFence(ctx, fence.Run.ID, fence.Value)
	})
	if err != nil {
		return err
	}
	return h.store.FenceDeleted(ctx, fence.Run.ID)
}

// reapTokens revokes tokens whose holders are gone, by the accessors that the ledger has. (A30)
func (h *Harness) reapTokens(ctx context.Context) error {
	tokens, err := h.store.OrphanedTokens(ctx, choreBatch)
	if err != nil {
		return err
	}
	var errs []error
	for _, token := range tokens {
		errs = append(errs, h.revokeToken(ctx, token))
	}
	return errors.Join(errs...)
}

// sweepTokens revokes tokens of this deployment's runs that no ledger knows: their worker ended, or Vault's answer was lost, between
// their creation and its record. Vault names the run and epoch that each was made for. A token of a run that this database does not
// know is another deployment's, or of no run and at its end within minutes. Where the worker may not list accessors, tokens that were
// lost end at their explicit maximum. (A30)
func (h *Harness) sweepTokens(ctx context.Context) error {
	_, err := h.vault.Sweep(ctx, h.store.Now(), func(ctx context.Context, found credential.Found) (needed bool, err error) {
		epoch, err := strconv.ParseInt(found.Epoch, 10, 64)
		if err != nil {
			return true, fmt.Errorf("the epoch of a token of run %s: %w", found.Run, err)
		}
		_, err = h.store.Run(ctx, found.Run)
		if errors.Is(err, queue.ErrNotFound) {
			return true, nil
		}
		if err != nil {
			return true, err
		}
		return h.store.Holds(ctx, found.Run, epoch)
	})
	if errors.Is(err, credential.ErrSweepNotAllowed) {
		return nil
	}
	return err
}

// retireLogs deletes session logs that have been kept for their time.
func (h *Harness) retireLogs(ctx context.Context) error {
	_, err := h.store.PruneLogs(ctx, time.Duration(h.config.Retention.SessionLogDays)*24*time.Hour)
	return err
}
