package profiles

import (
	"fmt"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/internal/canonical"
)

// Pins are the digests a contract fixes at emission: the profile's and those of its parts. With the repository, which the
// contract names itself, they are the seven things that nothing may substitute afterwards. (A3)
type Pins struct {
	Profile     string `json:"profile"`
	Rein        string `json:"rein"`
	Model       string `json:"model"`
	Tools       string `json:"tools"`
	Sandbox     string `json:"sandbox"`     // with the reachability
	Credentials string `json:"credentials"` // session routes and publish route
}

// Pins computes the pins of a profile.
func (p *Profile) Pins() (Pins, error) {
	var pins Pins
	for _, part := range []struct {
		pin     *string
		domain  string
		content any
	}{
		{&pins.Profile, evidence.DomainProfile, p},
		{&pins.Rein, evidence.DomainRein, p.Rein},
		{&pins.Model, evidence.DomainModel, p.Model},
		{&pins.Tools, evidence.DomainTools, p.Tools},
		{&pins.Sandbox, evidence.DomainSandbox, map[string]any{"sandbox": p.Sandbox, "reachability": p.Reachability}},
		{&pins.Credentials, evidence.DomainRoutes, map[string]any{"session": p.Credentials, "publish": p.Publish}},
	} {
		digest, err := canonical.Digest(part.domain, part.content)
		if err != nil {
			return Pins{}, fmt.Errorf("pins of %s: %w", p.Revision(), err)
		}
		*part.pin = digest
	}
	return pins, nil
}

// Map is the pins by name, as evidence has them.
func (p Pins) Map() map[string]string {
	return map[string]string{
		"profile": p.Profile, "rein": p.Rein, "model": p.Model, "tools": p.Tools, "sandbox": p.Sandbox,
		"credentials": p.Credentials,
	}
}

// Differs names the first pin in which p and other differ, and is empty when they are the same. An empty pin differs from
// everything: what was not pinned was not promised.
func (p Pins) Differs(other Pins) string {
	for _, part := range []struct{ name, a, b string }{
		{"profile", p.Profile, other.Profile},
		{"rein", p.Rein, other.Rein},
		{"model", p.Model, other.Model},
		{"tools", p.Tools, other.Tools},
		{"sandbox", p.Sandbox, other.Sandbox},
		{"credentials", p.Credentials, other.Credentials},
	} {
		if part.a != part.b || part.a == "" {
			return part.name
		}
	}
	return ""
}
