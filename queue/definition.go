package queue

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/internal/canonical"
	"github.com/rein-aharness/harness/queue/schedule"
	"github.com/rein-aharness/harness/repotx"
)

// Definition is a document that says who wants what and when: the part of a request that does not change from one occasion to the
// next. Together with an Occasion it makes a Request.
type Definition struct {
	Version int `json:"version"` // 1
	// Name of the definition; evidence and lists show it.
	Name string `json:"name"`
	// Repository is the URL of the remote, without a credential.
	Repository string `json:"repository"`
	// BaseRef is the branch the change stands on; TargetRef takes it. Equal, or TargetRef does not exist yet.
	BaseRef   string `json:"base_ref"`
	TargetRef string `json:"target_ref"`
	// Task is the bounded text the rein is given.
	Task string `json:"task"`
	// Profile is the exact reference name@version#sha256:….
	Profile string `json:"profile"`
	// Grant is what may change.
	Grant repotx.Bounds `json:"grant"`
	// WaiveFencing accepts a remote without atomic updates, visibly. (B35)
	WaiveFencing bool `json:"waive_fencing"`
	// DeadlineSeconds is how long after its emission a run may still be started. 0 means a day.
	DeadlineSeconds int `json:"deadline_seconds"`
	// Refs are attribution and decide nothing. (A19)
	Refs map[string]string `json:"refs"`
	// Concurrency is how many runs may work on the repository while a run of this definition does. 0 means any number.
	Concurrency int `json:"concurrency,omitzero"`
	// Schedule says when workers emit runs of it by themselves, once it is applied. Absent: never.
	Schedule *schedule.Spec `json:"schedule,omitzero"`
	// Attempts is the policy for further attempts after a scheduled run that changed nothing. Absent: none. (A47)
	Attempts *Attempts `json:"attempts,omitzero"`
}

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
	maxConcurrency = 1000
)

// Occasion is what makes one request of a definition.
type Occasion struct {
	// TriggerKey identifies the occasion: the same key never gives a second run. Required. (A15)
	TriggerKey string
	// OperationKey identifies the change across attempts; empty means the trigger key. (B30)
	OperationKey string
	// Operator is the person who watches an attended run; empty for an unattended one. (A13)
	Operator string
	// Supersedes is the run whose attempt this one repeats. (A47)
	Supersedes string
	// Proof labels a bounded proof of an unverified profile. (A5)
	Proof string
}

// ParseDefinition reads a definition strictly: what it does not know is refused, and so is a schedule that cannot be kept. What the
// request of an occasion needs is checked by Request.Validate.
func ParseDefinition(data []byte) (Definition, error) {
	var d Definition
	if err := canonical.DecodeYAML(data, &d, requestBounds()); err != nil {
		return Definition{}, definitionError(err)
	}
	if d.Version != 1 {
		return Definition{}, definitionError(fmt.Errorf("version: %d is not known; it is 1", d.Version))
	}
	if err := d.validatePlan(); err != nil {
		return Definition{}, definitionError(err)
	}
	return d, nil
}

func definitionError(err error) error {
	return evidence.Fail(evidence.StageEmit, evidence.CodeContractInvalid, "definition", err)
}

// validatePlan checks what is not part of a request.
func (d Definition) validatePlan() error {
	if d.Schedule != nil {
		if _, err := d.Schedule.Parse(); err != nil {
			return fmt.Errorf("schedule: %w", err)
		}
	}
	if d.Attempts == nil {
		return nil
	}
	if d.Schedule == nil {
		return errors.New("attempts: belong to a schedule; without one `harness runs retry` emits a further attempt")
	}
	if d.Attempts.Max < 2 || d.Attempts.Max > maxAttempts {
		return fmt.Errorf("attempts: max: 2 to %d", maxAttempts)
	}
	if _, err := d.Attempts.backoff(); err != nil {
		return fmt.Errorf("attempts: backoff: %w", err)
	}
	may := []evidence.Outcome{
		evidence.OutcomeFailed, evidence.OutcomeNotApplied, evidence.OutcomeRefused, evidence.OutcomeExpired,
	}
	for _, o := range d.Attempts.After {
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

// Request makes the request of one occasion.
func (d Definition) Request(o Occasion) Request {
	return Request{
		Version: 1, Definition: d.Name, TriggerKey: o.TriggerKey, OperationKey: o.OperationKey, Repository: d.Repository,
		BaseRef: d.BaseRef, TargetRef: d.TargetRef, Task: d.Task, Profile: d.Profile, Grant: d.Grant,
		WaiveFencing: d.WaiveFencing, Attended: o.Operator != "", Operator: o.Operator, Supersedes: o.Supersedes,
		Refs: d.Refs, Proof: o.Proof, DeadlineSeconds: d.DeadlineSeconds, Concurrency: d.Concurrency,
	}
}

// triggerKey is the trigger key of a due time's attempt. It follows from nothing else, so that a tick that is emitted twice gives
// the same run.
func triggerKey(definition string, due time.Time, attempt int) string {
	key := "schedule/" + definition + "/" + due.UTC().Format(time.RFC3339Nano)
	if attempt > 1 {
		key += "#" + strconv.Itoa(attempt)
	}
	return key
}
