package rein

import (
	"errors"
	"fmt"
	"slices"

	"github.com/rein-aharness/harness/rein/credential"
)

// Scope is how far a tool profile reaches. (B2)
type Scope string

// The scopes. There is no default.
const (
	ScopeUnrestricted Scope = "unrestricted"
	ScopeAllow        Scope = "allow"
	ScopeDenyAll      Scope = "deny_all"
)

// Risk is how much harm a capability can do.
type Risk string

// The risks in use.
const (
	RiskRead     Risk = "read"
	RiskWrite    Risk = "write"
	RiskCritical Risk = "critical"
)

// capabilities are all the tools there are, and their risk. A name that is not here is no tool. (B12)
func capabilities() map[string]Risk {
	return map[string]Risk{
		"list_files": RiskRead,
		"read_file":  RiskRead,
		"search":     RiskRead,
		"write_file": RiskWrite,
		"http":       RiskCritical,
		"shell":      RiskCritical,
	}
}

// Tools is the tool profile: which tools the rein may let its model use.
type Tools struct {
	// Revision is the tool profile's `name@1.2.3`.
	Revision string `json:"revision"`
	Scope    Scope  `json:"scope"`
	// Allow lists the tools of the scope allow, and is absent with the others.
	Allow []string `json:"allow,omitempty"`
	// AcceptCritical must be true for a scope that reaches arbitrary shell or HTTP. (B12)
	AcceptCritical bool `json:"accept_critical,omitempty"`
}

// ErrToolDenied says that a tool is not in the tool profile. (A21)
var ErrToolDenied = errors.New("the tool profile denies this tool")

// Validate refuses a scope that is absent, empty or ambiguous: nothing is read into what is not there. (B1, B2)
func (t Tools) Validate() error {
	if err := credential.CheckRevision(t.Revision); err != nil {
		return err
	}
	if err := t.validateScope(); err != nil {
		return fmt.Errorf("tools %s: %w", t.Revision, err)
	}
	return nil
}

func (t Tools) validateScope() error {
	switch t.Scope {
	case ScopeUnrestricted, ScopeDenyAll:
		if t.Allow != nil {
			return fmt.Errorf("allow belongs to the scope allow and not to %s", t.Scope)
		}
	case ScopeAllow:
		if len(t.Allow) == 0 {
			return errors.New("the scope allow lists no tool; deny_all says so")
		}
	default:
		return errors.New("scope is none of unrestricted, allow, deny_all")
	}
	known := capabilities()
	for i, tool := range t.Allow {
		if _, ok := known[tool]; !ok {
			return fmt.Errorf("allow[%d] is not a registered tool", i)
		}
		if slices.Contains(t.Allow[:i], tool) {
			return fmt.Errorf("allow[%d] is there twice", i)
		}
	}
	if t.reachesCritical() != t.AcceptCritical {
		return errors.New("accept_critical must be true when the scope reaches shell or http, and absent otherwise")
	}
	return nil
}

func (t Tools) reachesCritical() bool {
	known := capabilities()
	return t.Scope == ScopeUnrestricted ||
		slices.ContainsFunc(t.Allow, func(tool string) bool { return known[tool] == RiskCritical })
}

// Permit returns nil for a registered tool within the scope, and ErrToolDenied for any other. A profile that does not validate
// permits nothing. (A21, B1)
func (t Tools) Permit(tool string) error {
	_, known := capabilities()[tool]
	if t.Validate() == nil && known && (t.Scope == ScopeUnrestricted || slices.Contains(t.Allow, tool)) {
		return nil
	}
	return fmt.Errorf("%w: %.64q", ErrToolDenied, tool)
}
