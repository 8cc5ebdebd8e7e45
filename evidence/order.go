package evidence

import (
	"fmt"
	"slices"
)

// once lists the kinds a run has at most one of: one emission, one attempt, one commit, one end. (A40)
var once = []Kind{KindEmitted, KindStarted, KindSandboxed, KindSessionEnded, KindCaptured, KindIntended, KindFound, KindClosed}

// admit decides whether f with its body may be the next fact. (A1)
func (c *Chain) admit(f Fact, body Body) error {
	r, ok := ruleOf(f.Kind)
	if !ok {
		return fmt.Errorf("%w: unknown kind", ErrFactMalformed)
	}
	if !r.allows(f.Stage, f.Source) {
		return fmt.Errorf("%w: not in stage %q from source %q", ErrOrder, Clean(string(f.Stage), 64), Clean(string(f.Source), 64))
	}
	if (f.Kind == KindEmitted) != (len(c.facts) == 0) {
		return fmt.Errorf("%w: the emission and only it comes first", ErrOrder)
	}
	if f.Epoch < c.epoch || f.Epoch < 0 {
		return fmt.Errorf("%w: the epoch went back from %d to %d", ErrOrder, c.epoch, f.Epoch)
	}
	if slices.Contains(once, f.Kind) && c.seen[f.Kind] {
		return fmt.Errorf("%w: there is one already", ErrOrder)
	}
	if c.seen[KindClosed] && f.Kind != KindTornDown {
		return fmt.Errorf("%w: the run is closed", ErrOrder)
	}
	for _, need := range r.needs {
		if !c.seen[need] {
			return c.missing(f, need)
		}
	}
	return c.consistent(f, body)
}

func (c *Chain) missing(f Fact, need Kind) error {
	err := fmt.Errorf("%w: no %s before %s", ErrOrder, need, f.Kind)
	if f.Kind != KindIntended {
		return err
	}
	return Fail(StageAccept, CodeSessionEvidenceGone, string(need), err)
}

// consistent holds a body against what the chain says already.
func (c *Chain) consistent(f Fact, body Body) error {
	switch b := body.(type) {
	case Claimed:
		if f.Epoch <= c.claim {
			return fmt.Errorf("%w: epoch %d was claimed already", ErrOrder, f.Epoch)
		}
	case Intended:
		switch {
		case c.seen[KindFound]:
			return fmt.Errorf("%w: the run's change was found at the remote", ErrOrder)
		case c.seen[KindFailed] || c.seen[KindCancelled]:
			return fmt.Errorf("%w: the run has failed or was cancelled", ErrOrder)
		case !c.lastTear.Clean():
			return Fail(StageAccept, CodeTeardownFailed, "", fmt.Errorf("%w: the teardown left something", ErrOrder))
		}
	case Published:
		if b.Transaction != c.intended.Transaction {
			return fmt.Errorf("%w: another transaction was intended", ErrOrder)
		}
	case Found:
		if c.seen[KindIntended] {
			return fmt.Errorf("%w: the record says what was intended", ErrOrder)
		}
	case Settled:
		return c.settles(b)
	case Closed:
		return c.closes(b)
	}
	return nil
}

// settles decides whether the chain carries what the remote was found to say: of a change that was intended, or found there.
func (c *Chain) settles(b Settled) error {
	transaction := c.intended.Transaction
	if c.seen[KindFound] {
		transaction = c.found.Transaction
	}
	change := c.seen[KindIntended] || c.seen[KindFound]
	switch {
	case change && b.Transaction != transaction:
		return fmt.Errorf("%w: another transaction was intended", ErrOrder)
	case !change && b.Effect == EffectConfirmed:
		return fmt.Errorf("%w: nothing was intended or found that could be confirmed", ErrOrder)
	}
	return nil
}

// closes decides whether the chain carries a final state and effect. (A48, B28)
func (c *Chain) closes(b Closed) error {
	switch {
	case !b.State.Final():
		return fmt.Errorf("%w: %q is no final state", ErrOrder, b.State)
	case !b.Effect.Final():
		return fmt.Errorf("%w: a run does not close while its effect is %q", ErrOrder, b.Effect)
	case c.seen[KindSettled] && b.Effect != c.settled.Effect && !c.neverSent(b.Effect):
		return fmt.Errorf("%w: the effect was settled as %q", ErrOrder, c.settled.Effect)
	case !c.seen[KindSettled] && b.Effect == EffectConfirmed && !c.published.ReadBack:
		return fmt.Errorf("%w: no read-back confirms the effect", ErrOrder)
	case !c.seen[KindSettled] && b.Effect == EffectNotApplied && c.seen[KindIntended]:
		return fmt.Errorf("%w: nothing settled that the intended change was not applied", ErrOrder)
	case (c.seen[KindPublished] || c.seen[KindFound]) && b.Effect == EffectNotDispatched:
		return fmt.Errorf("%w: a change was dispatched", ErrOrder)
	case b.State == StateCompleted && b.Effect == EffectNotApplied:
		return fmt.Errorf("%w: a run whose change was not applied is not completed", ErrOrder)
	}
	return nil
}

// neverSent reports whether a run may close as not dispatched although the settling says not applied: the tombstone shows that
// nothing landed, and without an intent nothing was sent.
func (c *Chain) neverSent(effect Effect) bool {
	return effect == EffectNotDispatched && c.settled.Effect == EffectNotApplied && !c.seen[KindIntended] && !c.seen[KindFound]
}
