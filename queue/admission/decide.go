package admission

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/internal/canonical"
	"github.com/rein-aharness/harness/repotx"
)

// Outcome is the answer. The set is closed. (B5)
type Outcome string

// The outcomes.
const (
	Allowed          Outcome = "allowed"
	ApprovalRequired Outcome = "approval_required"
	Blocked          Outcome = "blocked"
)

// Input is everything the decision depends on. The decision's id covers all of it.
type Input struct {
	Actor    evidence.Actor `json:"actor"`
	Contract string         `json:"contract"` // digest
	// Repository is the pinned canonical identity, Grant what the definition grants: finite, for one repository and two refs. It is
	// the standing grant without which an agent changes nothing. (B7)
	Repository string        `json:"repository"`
	Grant      repotx.Grant  `json:"grant"`
	Profile    repotx.Bounds `json:"profile"` // what the profile bounds it to
	Proof      string        `json:"proof"`   // label of a bounded proof, or empty

	// What the definition and the deployment waive, and what the profile forbids to waive. (B35)
	WaivesFencing    bool `json:"waives_fencing"`
	WaivesManifest   bool `json:"waives_manifest"`
	RequiresFencing  bool `json:"requires_fencing"`
	RequiresManifest bool `json:"requires_manifest"`
}

// Decision is the answer, its reasons in order, and its identity.
type Decision struct {
	ID      string   `json:"id"`
	Outcome Outcome  `json:"outcome"`
	Reasons []string `json:"reasons"`
}

const domainDecision = "harness.decision.v1"

// Decide answers. The same input gives the same decision, whatever the order of its lists. An error means that the input has no
// canonical form; nothing is allowed then.
func Decide(in Input) (Decision, error) {
	in.Grant.Paths, in.Grant.Protected = sorted(in.Grant.Paths), sorted(in.Grant.Protected)
	in.Profile.Paths, in.Profile.Protected = sorted(in.Profile.Paths), sorted(in.Profile.Protected)
	d := Decision{Outcome: Allowed}
	block := func(when bool, reason string) {
		if when {
			d.Outcome = Blocked
			d.Reasons = append(d.Reasons, reason)
		}
	}
	block(!in.Actor.Valid(), "actor_invalid")
	block(in.Grant.Validate() != nil, "grant_invalid")
	block(in.Grant.Repository != in.Repository, "repository_mismatch")
	block(in.Profile.Validate() != nil, "profile_bounds_invalid")
	block(in.Grant.Symlinks && !in.Profile.Symlinks, "symlinks_exceed_profile")
	block(in.WaivesFencing && in.RequiresFencing, "fencing_required")
	block(in.WaivesManifest && in.RequiresManifest, "manifest_required")
	if d.Outcome == Allowed {
		d.Reasons = append(d.Reasons, "standing_grant")
		if in.Proof != "" {
			d.Reasons = append(d.Reasons, "proof_labelled")
		}
		if in.WaivesFencing {
			d.Reasons = append(d.Reasons, "fencing_waived")
		}
		if in.WaivesManifest {
			d.Reasons = append(d.Reasons, "manifest_waivable")
		}
	}
	slices.Sort(d.Reasons)
	id, err := canonical.Digest(domainDecision, map[string]any{"input": in, "outcome": d.Outcome, "reasons": d.Reasons})
	if err != nil {
		return Decision{}, evidence.Fail(evidence.StageAdmit, evidence.CodeAdmissionDenied, "input", fmt.Errorf("identify the decision: %w", err))
	}
	d.ID = id
	return d, nil
}

// Err is nil for an allowed run, and otherwise the failure that the run ends or waits with.
func (d Decision) Err() error {
	code := evidence.CodeAdmissionDenied
	switch d.Outcome {
	case Allowed:
		return nil
	case ApprovalRequired:
		code = evidence.CodeApprovalRequired
	}
	return evidence.Fail(evidence.StageAdmit, code, strings.Join(d.Reasons, ","), errors.New("the decision engine does not allow the run"))
}

func sorted(list []string) []string {
	out := slices.Clone(list)
	slices.Sort(out)
	return out
}
