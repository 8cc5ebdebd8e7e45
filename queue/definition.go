package queue

import (
	"errors"
	"fmt"
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

// maxConcurrency bounds Definition.Concurrency.
const maxConcurrency = 1000

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
	return d.Attempts.validate()
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
