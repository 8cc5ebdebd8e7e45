package profiles

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/internal/canonical"
	"github.com/rein-aharness/harness/rein"
	"github.com/rein-aharness/harness/rein/credential"
	"github.com/rein-aharness/harness/repotx"
	"github.com/rein-aharness/harness/sandbox"
)

// Profile is one revision. Everything in it is a name, a bound or public; there is no place for a secret. (A29)
type Profile struct {
	Name    string `json:"name"`
	Version string `json:"version"` // 1.2.3
	// Reachability says what the session's processes can reach besides their own loopback. It must be said. (A23)
	Reachability Reachability            `json:"reachability"`
	Rein         rein.Spec               `json:"rein"`
	Model        rein.Model              `json:"model"`
	Tools        rein.Tools              `json:"tools"`
	Sandbox      sandbox.Spec            `json:"sandbox"`
	Credentials  []credential.Route      `json:"credentials"`
	Publish      credential.PublishRoute `json:"publish"`
	Controls     Controls                `json:"controls"`
	Limits       Limits                  `json:"limits"`
	// Grant bounds what a run with this profile may change; definition and manifest bound it further. (A33)
	Grant repotx.Bounds `json:"grant"`
}

// Reachability is what a session can reach.
type Reachability string

// ReachNone is nothing: the container has no network.
const ReachNone Reachability = "none"

// Control is something the chain does that a deployment or a definition could otherwise waive.
type Control string

// The controls.
const (
	ControlFencing  Control = "fencing"  // publication under a fence at the remote
	ControlManifest Control = "manifest" // the repository's own manifest at the baseline
)

// Controls names what may not be waived for runs with this profile.
type Controls struct {
	Required []Control `json:"required"`
}

// Requires reports whether a control may not be waived.
func (c Controls) Requires(control Control) bool { return slices.Contains(c.Required, control) }

// Limits bound what the worker takes from a session. All are required.
type Limits struct {
	ChangeEntries   int   `json:"change_entries"`    // files and folders that are looked at
	ChangeBytes     int64 `json:"change_bytes"`      // of all their content together
	ChangeFileBytes int64 `json:"change_file_bytes"` // of one file, by its logical size
	ChangeDepth     int   `json:"change_depth"`      // folders inside folders
	ChangePathBytes int   `json:"change_path_bytes"` // of one path
	LogBytes        int64 `json:"log_bytes"`         // of the session log
	// ProofRuns is how many labelled proofs may run on one engine while the profile is unverified there; zero: none. (A5)
	ProofRuns int `json:"proof_runs"`
}

const (
	maxProfileBytes = 128 << 10
	maxCredentials  = 16
)

// Parse reads a profile from YAML, strictly, and validates it. A profile with a place for a secret, or with one in it, has the
// code value_in_contract; unstated reachability has reachability_ambiguous; whatever else is wrong has profile_malformed.
// (A9, A23, A29)
func Parse(document []byte) (*Profile, error) {
	return parse(document, canonical.DecodeYAML)
}

// parseStored reads a profile from its canonical form.
func parseStored(document []byte) (*Profile, error) {
	return parse(document, canonical.DecodeJSON)
}

func parse(document []byte, decode func([]byte, any, canonical.Bounds) error) (*Profile, error) {
	bounds := canonical.Bounds{MaxBytes: maxProfileBytes}
	var tree map[string]any
	if err := decode(document, &tree, bounds); err != nil {
		return nil, malformed("", err)
	}
	if place, found := credential.FindValue(tree); found {
		return nil, evidence.Fail(evidence.StageEmit, evidence.CodeValueInContract, place, rein.ErrCarriesSecret)
	}
	var p Profile
	if err := decode(document, &p, bounds); err != nil {
		return nil, malformed("", err)
	}
	if err := p.Validate(); err != nil {
		return nil, err
	}
	return &p, nil
}

func malformed(subject string, err error) error {
	return evidence.Fail(evidence.StageEmit, evidence.CodeProfileMalformed, subject, err)
}

// Validate refuses a profile that is not whole, exact and consistent; the codes are those of Parse.
func (p *Profile) Validate() error {
	if err := credential.CheckRevision(p.Revision()); err != nil {
		return malformed("name, version", err)
	}
	if p.Reachability != ReachNone {
		return evidence.Fail(evidence.StageEmit, evidence.CodeReachabilityAmbiguous, p.Revision(),
			errors.New("reachability is not none: what is not said in full is refused"))
	}
	for _, check := range []func() error{
		p.Rein.Validate, p.Model.Validate, p.Tools.Validate, p.Sandbox.Validate, p.checkRoutes, p.Publish.Validate,
		p.Controls.validate, p.Limits.validate, p.Grant.Validate, p.checkTogether,
	} {
		err := check()
		if errors.Is(err, rein.ErrCarriesSecret) {
			return evidence.Fail(evidence.StageEmit, evidence.CodeValueInContract, p.Revision(), err)
		}
		if err != nil {
			return malformed(p.Revision(), err)
		}
	}
	return nil
}

func (p *Profile) checkRoutes() error {
	if len(p.Credentials) > maxCredentials {
		return fmt.Errorf("credentials: more than %d routes", maxCredentials)
	}
	for i, route := range p.Credentials {
		if err := route.Validate(); err != nil {
			return err
		}
		for _, other := range p.Credentials[:i] {
			if route.Revision == other.Revision || route.Inject == other.Inject {
				return fmt.Errorf("credential route %s: its revision or its target is there twice", route.Revision)
			}
		}
		if _, taken := p.Rein.Env[route.Inject.Target]; taken && route.Inject.Kind == credential.InjectEnv {
			return fmt.Errorf("credential route %s: rein.env has its variable too", route.Revision)
		}
		// A session that could read the publish credential could publish.
		if route.Policy == p.Publish.Policy || route.Path == p.Publish.Path {
			return fmt.Errorf("credential route %s: it shares path or policy with the publish route", route.Revision)
		}
	}
	return nil
}

func (c Controls) validate() error {
	for i, control := range c.Required {
		if control != ControlFencing && control != ControlManifest || slices.Contains(c.Required[:i], control) {
			return fmt.Errorf("controls.required[%d] is not one of fencing, manifest, once", i)
		}
	}
	return nil
}

func (l Limits) validate() error {
	for _, limit := range []struct {
		name     string
		value    int64
		min, max int64
	}{
		{"change_entries", int64(l.ChangeEntries), 1, 1 << 22},
		{"change_bytes", l.ChangeBytes, 1, 1 << 34},
		{"change_file_bytes", l.ChangeFileBytes, 1, 1 << 32},
		{"change_depth", int64(l.ChangeDepth), 1, 256},
		{"change_path_bytes", int64(l.ChangePathBytes), 1, 4096},
		{"log_bytes", l.LogBytes, 1 << 10, 64 << 20},
		{"proof_runs", int64(l.ProofRuns), 0, 100},
	} {
		if limit.value < limit.min || limit.value > limit.max {
			return fmt.Errorf("limits.%s is %d, must be %d to %d", limit.name, limit.value, limit.min, limit.max)
		}
	}
	return nil
}

// checkTogether refuses sections that are right by themselves and contradict each other.
func (p *Profile) checkTogether() error {
	if int64(p.Rein.TimeoutSeconds) > p.Sandbox.TTLSeconds {
		return errors.New("rein.timeout_seconds is longer than sandbox.ttl_seconds")
	}
	return p.Rein.Compatible(p.Tools, p.Model)
}

// Revision is `name@version`.
func (p *Profile) Revision() string { return p.Name + "@" + p.Version }

// Canonical is the one canonical form of the profile, RFC 8785. (A20)
func (p *Profile) Canonical() ([]byte, error) { return canonical.Marshal(p) }

// Digest is the sha256 of the canonical form under the profile's domain. (A2, A20)
func (p *Profile) Digest() (string, error) { return canonical.Digest(evidence.DomainProfile, p) }

// Ref names this content.
func (p *Profile) Ref() (Ref, error) {
	digest, err := p.Digest()
	return Ref{Name: p.Name, Version: p.Version, Digest: digest}, err
}

// SessionPolicies are the Vault policies of a session's token: those of its routes, each once.
func (p *Profile) SessionPolicies() []string {
	var policies []string
	for _, route := range p.Credentials {
		if !slices.Contains(policies, route.Policy) {
			policies = append(policies, route.Policy)
		}
	}
	return policies
}

// SessionTTL is how long a session's token lives: no longer than the sandbox, nor than any of its routes allows.
func (p *Profile) SessionTTL() time.Duration {
	seconds := min(p.Sandbox.TTLSeconds, int64(credential.MaxTTL/time.Second))
	for _, route := range p.Credentials {
		seconds = min(seconds, int64(route.TTLSeconds))
	}
	return time.Duration(seconds) * time.Second
}
