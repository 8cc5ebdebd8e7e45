package repotx

import (
	"errors"
	"fmt"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/rein-aharness/harness/evidence"
)

// ManifestPath is where a repository says itself what the harness may change in it. No grant ever covers it.
const ManifestPath = ".harness.yaml"

// Bounds is what one party allows to change: the definition, the profile or the repository's manifest. A run may change
// what every party allows. (A33)
type Bounds struct {
	// Paths are doublestar patterns over whole paths, from the root and without a leading slash. At least one.
	Paths []string `json:"paths"`
	// Symlinks permits adding, changing and removing symbolic links. New targets must still point inside.
	Symlinks bool `json:"symlinks"`
	// Protected names protected files or folders, exactly and without a pattern, that may be changed all the same.
	Protected []string `json:"protected"`
}

// Grant is what the definition asks for: the repository, the two refs and the bounds.
type Grant struct {
	// Repository is the canonical identity, Repository.ID.
	Repository string `json:"repository"`
	// BaseRef is the branch that the run stands on, as a full ref name.
	BaseRef string `json:"base_ref"`
	// TargetRef is the branch that receives the commit: BaseRef itself, or a branch that does not exist yet.
	TargetRef string `json:"target_ref"`
	Bounds
}

// The most entries of one list and the longest entry in bytes.
const (
	maxBoundsEntries = 128
	maxPatternBytes  = 1024
)

// Validate checks the bounds by themselves. The error is not classified; the caller knows whose document it is.
func (b Bounds) Validate() error {
	if len(b.Paths) == 0 {
		return errors.New("paths: at least one pattern is needed; nothing is allowed by leaving it out")
	}
	if len(b.Paths) > maxBoundsEntries || len(b.Protected) > maxBoundsEntries {
		return fmt.Errorf("paths, protected: more than %d entries", maxBoundsEntries)
	}
	for _, p := range b.Paths {
		switch {
		case len(p) > maxPatternBytes:
			return fmt.Errorf("paths: a pattern is longer than %d bytes", maxPatternBytes)
		case checkPath(p) != nil:
			return fmt.Errorf("paths: pattern %q: %w", p, checkPath(p))
		case !doublestar.ValidatePattern(p):
			return fmt.Errorf("paths: pattern %q is malformed", p)
		}
	}
	for _, p := range b.Protected {
		switch {
		case checkTreePath(p) != nil:
			return fmt.Errorf("protected: %q: %w", p, checkTreePath(p))
		case strings.ContainsAny(p, `*?[]{}\`):
			return fmt.Errorf("protected: %q is a pattern; protected paths are granted by name", p)
		case foldName(p) == ManifestPath:
			return fmt.Errorf("protected: %s is never granted", ManifestPath)
		}
	}
	return nil
}

// Validate checks the grant by itself. The failure's code is CodeContractInvalid, or CodeRefNotGranted for a ref that no
// grant may name.
func (g Grant) Validate() error {
	if g.Repository == "" {
		return evidence.Fail(evidence.StageEmit, evidence.CodeContractInvalid, "repository", errors.New("grant names no repository"))
	}
	for _, ref := range []string{g.BaseRef, g.TargetRef} {
		if err := checkBranch(ref); err != nil {
			return evidence.Fail(evidence.StageEmit, evidence.CodeRefNotGranted, ref, err)
		}
	}
	if err := g.Bounds.Validate(); err != nil {
		return evidence.Fail(evidence.StageEmit, evidence.CodeContractInvalid, "grant", err)
	}
	return nil
}

// Allowance is the intersection of what definition, profile and manifest allow. Only Intersect makes one.
type Allowance struct {
	Repository, BaseRef, TargetRef string

	parties []Bounds
}

// Intersect combines the definition's grant, the profile's bounds and the manifest found at the baseline. m is nil only
// when the deployment waives the manifest. A target ref that the manifest does not name is CodeRefNotGranted, a party that
// allows nothing CodeGrantEmpty. (A33)
func Intersect(g Grant, profile Bounds, m *Manifest) (Allowance, error) {
	if err := g.Validate(); err != nil {
		return Allowance{}, err
	}
	parties := []Bounds{g.Bounds, profile}
	if m != nil {
		parties = append(parties, m.Bounds)
		if !m.allowsTarget(g.TargetRef) {
			return Allowance{}, evidence.Fail(evidence.StagePreflight, evidence.CodeRefNotGranted, g.TargetRef,
				errors.New("the repository's manifest does not name the target ref"))
		}
	}
	for _, p := range parties {
		if len(p.Paths) == 0 {
			return Allowance{}, evidence.Fail(evidence.StagePreflight, evidence.CodeGrantEmpty, "paths", nil)
		}
		if err := p.Validate(); err != nil {
			return Allowance{}, evidence.Fail(evidence.StagePreflight, evidence.CodeGrantEmpty, "paths", err)
		}
	}
	return Allowance{Repository: g.Repository, BaseRef: g.BaseRef, TargetRef: g.TargetRef, parties: parties}, nil
}

// Permits reports whether every party's patterns cover the path. Protected paths are judged apart.
func (a Allowance) Permits(path string) bool {
	for _, p := range a.parties {
		if !matchesAny(p.Paths, path) {
			return false
		}
	}
	return len(a.parties) > 0
}

// symlinks reports whether every party permits symbolic links.
func (a Allowance) symlinks() bool {
	for _, p := range a.parties {
		if !p.Symlinks {
			return false
		}
	}
	return len(a.parties) > 0
}

// unprotects reports whether every party grants the protected path by name, itself or a folder it is in.
func (a Allowance) unprotects(path string) bool {
	for _, p := range a.parties {
		named := false
		for _, name := range p.Protected {
			named = named || path == name || strings.HasPrefix(path, name+"/")
		}
		if !named {
			return false
		}
	}
	return len(a.parties) > 0
}

func matchesAny(patterns []string, path string) bool {
	for _, p := range patterns {
		if doublestar.MatchUnvalidated(p, path) {
			return true
		}
	}
	return false
}

// protectedNames are files that steer git, review or a build service wherever they lie; compared folded.
var protectedNames = map[string]bool{".gitmodules": true, ".gitattributes": true, "codeowners": true}

// protectedRoots are build definitions that a service picks up from the root; compared folded.
var protectedRoots = map[string]bool{
	".gitlab-ci.yml": true, ".travis.yml": true, ".drone.yml": true, ".appveyor.yml": true, "appveyor.yml": true,
	"azure-pipelines.yml": true, "bitbucket-pipelines.yml": true, "jenkinsfile": true, ".woodpecker.yml": true,
	".cirrus.yml": true, ".build.yml": true,
}

// isProtected reports whether a path needs a grant by name: everything in a top-level dot-folder, and files by which a
// change would reach further than its own bytes. (A34, CASES 32)
func isProtected(path string) bool {
	folded := foldName(path)
	parts := strings.Split(folded, "/")
	if len(parts) > 1 && strings.HasPrefix(parts[0], ".") {
		return true
	}
	return protectedNames[parts[len(parts)-1]] || len(parts) == 1 && protectedRoots[parts[0]]
}
