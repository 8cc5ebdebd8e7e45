package rein

import (
	"fmt"

	"github.com/rein-aharness/harness/rein/credential"
)

// ModelKind is the kind of a model route.
type ModelKind string

// ModelNone says that the session reaches no model. It must be said.
const ModelNone ModelKind = "none"

// Model is the model route of a profile.
type Model struct {
	// Revision is the model route's `name@1.2.3`.
	Revision string    `json:"revision"`
	Kind     ModelKind `json:"kind"`
}

// Validate refuses a route that is absent or of an unknown kind. (B1)
func (m Model) Validate() error {
	if err := credential.CheckRevision(m.Revision); err != nil {
		return err
	}
	if m.Kind != ModelNone {
		return fmt.Errorf("model %s: kind is not none", m.Revision)
	}
	return nil
}

// Compatible refuses tool and model sections that this rein cannot enforce: a command calls no tool through the harness and
// reaches no model, so nothing but deny_all and none would be true. (A21)
func (s Spec) Compatible(tools Tools, model Model) error {
	if tools.Scope != ScopeDenyAll {
		return fmt.Errorf("the rein command cannot enforce the tool scope %s; only deny_all", tools.Scope)
	}
	if model.Kind != ModelNone {
		return fmt.Errorf("the rein command has no model; only none")
	}
	return nil
}
