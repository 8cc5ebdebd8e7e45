package harness

import (
	"fmt"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/internal/canonical"
	"github.com/rein-aharness/harness/queue"
	"github.com/rein-aharness/harness/repotx"
)

// Definition is a document that says who wants what: the part of a request that does not change from one occasion to the
// next. Together with an Occasion it makes a queue.Request.
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
}

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

// ParseDefinition reads a definition strictly: what it does not know is refused.
func ParseDefinition(data []byte) (Definition, error) {
	var d Definition
	err := canonical.DecodeYAML(data, &d, canonical.Bounds{MaxBytes: 256 << 10, MaxDepth: 8, MaxValues: 4096, MaxString: 64 << 10})
	if err != nil {
		return Definition{}, evidence.Fail(evidence.StageEmit, evidence.CodeContractInvalid, "definition", err)
	}
	if d.Version != 1 {
		return Definition{}, evidence.Fail(evidence.StageEmit, evidence.CodeContractInvalid, "definition",
			fmt.Errorf("version: %d is not known; it is 1", d.Version))
	}
	return d, nil
}

// Request makes the request of one occasion.
func (d Definition) Request(o Occasion) queue.Request {
	return queue.Request{
		Version: 1, Definition: d.Name, TriggerKey: o.TriggerKey, OperationKey: o.OperationKey, Repository: d.Repository,
		BaseRef: d.BaseRef, TargetRef: d.TargetRef, Task: d.Task, Profile: d.Profile, Grant: d.Grant,
		WaiveFencing: d.WaiveFencing, Attended: o.Operator != "", Operator: o.Operator, Supersedes: o.Supersedes,
		Refs: d.Refs, Proof: o.Proof, DeadlineSeconds: d.DeadlineSeconds,
	}
}
