package queue

import (
	"fmt"
	"slices"
	"time"

	"github.com/rein-aharness/harness/evidence"
)

// Attempts says when the next attempt follows a run that is over. Whatever it says, a run is only followed when its effect is
// not_dispatched or not_applied, and only once. (A47)
type Attempts struct {
	// Max is how many runs one due time may have, the first included: 2 to 10.
	Max int `json:"max"`
	// Backoff is the wait before the second attempt; it doubles with each further one. A duration of at most 24h; default 1m.
	Backoff string `json:"backoff,omitzero"`
	// After are the dispositions that are followed. Default failed and not_applied; refused and expired may be named too.
	After []evidence.Outcome `json:"after,omitzero"`
}

const (
	maxAttempts    = 10
	maxBackoff     = 24 * time.Hour
	defaultBackoff = time.Minute
)

func (a Attempts) validate() error {
	if a.Max < 2 || a.Max > maxAttempts {
		return fmt.Errorf("attempts: max: 2 to %d", maxAttempts)
	}
	if _, err := a.backoff(); err != nil {
		return fmt.Errorf("attempts: backoff: %w", err)
	}
	may := []evidence.Outcome{
		evidence.OutcomeFailed, evidence.OutcomeNotApplied, evidence.OutcomeRefused, evidence.OutcomeExpired,
	}
	for _, o := range a.After {
		if !slices.Contains(may, o) {
			return fmt.Errorf("attempts: after: %q is none of %v", o, may)
		}
	}
	return nil
}

func (a Attempts) backoff() (time.Duration, error) {
	if a.Backoff == "" {
		return defaultBackoff, nil
	}
	d, err := time.ParseDuration(a.Backoff)
	if err != nil || d < 0 || d > maxBackoff {
		return 0, fmt.Errorf("a duration of 0s to %s is needed", maxBackoff)
	}
	return d, nil
}

// follow says whether another attempt follows a run that is the given attempt and is over, and how long after its end. (A47)
func (a *Attempts) follow(r Run, attempt int) (bool, time.Duration, error) {
	if a == nil || attempt >= a.Max || r.FinishedAt == nil || r.State == evidence.StateCompleted {
		return false, 0, nil
	}
	after := a.After
	if len(after) == 0 {
		after = []evidence.Outcome{evidence.OutcomeFailed, evidence.OutcomeNotApplied}
	}
	unchanged := r.Effect == evidence.EffectNotDispatched || r.Effect == evidence.EffectNotApplied
	if !unchanged || !slices.Contains(after, r.Disposition) {
		return false, 0, nil
	}
	wait, err := a.backoff()
	return err == nil, min(wait<<(attempt-1), maxBackoff), err
}
