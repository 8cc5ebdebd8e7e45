package harness

import (
	"context"
	"fmt"

	"github.com/rein-aharness/harness/rein/credential"
	"github.com/rein-aharness/harness/sandbox"
)

// giveBack revokes what a credential session holds and wipes it. It goes on when the caller's context has ended. (A30)
func giveBack(ctx context.Context, session *credential.Session) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishWithin)
	defer cancel()
	defer session.Wipe()
	return session.Revoke(ctx)
}

// revokeToken ends a token whose holder is gone, by its accessor, and notes that Vault no longer knows it. (A30)
func (h *Harness) revokeToken(ctx context.Context, token credential.Token) error {
	err := h.vault.RevokeAccessor(ctx, token.Accessor)
	if err == nil {
		err = h.store.TokenRevoked(ctx, token.Accessor)
	}
	if err != nil {
		return fmt.Errorf("token of run %s for %s: %w", token.Run, token.Purpose, err)
	}
	return nil
}

// sweepSandboxes removes a run's sandboxes of the epochs that are over from this worker's engine. Without an error none of them is
// left there. (A25, A26)
func (h *Harness) sweepSandboxes(ctx context.Context, run string, over func(epoch int64) bool) error {
	_, err := h.venue.Janitor(ctx, h.store.Now(), func(l sandbox.Labels) (bool, error) {
		return l.Run == run && over(l.Epoch), nil
	})
	if err != nil {
		return fmt.Errorf("sweep the sandboxes of run %s: %w", run, err)
	}
	return nil
}
