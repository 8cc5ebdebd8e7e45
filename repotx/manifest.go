package repotx

import (
	"fmt"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/internal/canonical"
)

// Manifest is the repository's own word on what the harness may change: the file ManifestPath at the baseline.
type Manifest struct {
	// Version is the format's version, 1.
	Version int `json:"version"`
	// TargetRefs are doublestar patterns over full branch names that may receive a commit. At least one.
	TargetRefs []string `json:"target_refs"`
	Bounds
}

// maxManifestBytes bounds the manifest file.
const maxManifestBytes = 64 << 10

// ParseManifest decodes a manifest strictly. Whatever is wrong with it is CodeManifestMalformed: a manifest that cannot be
// read allows nothing.
func ParseManifest(data []byte) (*Manifest, error) {
	m, err := parseManifest(data)
	if err != nil {
		return nil, evidence.Fail(evidence.StagePreflight, evidence.CodeManifestMalformed, ManifestPath, err)
	}
	return m, nil
}

func parseManifest(data []byte) (*Manifest, error) {
	if len(data) > maxManifestBytes {
		return nil, fmt.Errorf("manifest is longer than %d bytes", maxManifestBytes)
	}
	var m Manifest
	if err := canonical.DecodeYAML(data, &m, canonical.Bounds{MaxBytes: maxManifestBytes}); err != nil {
		return nil, err
	}
	if m.Version != 1 {
		return nil, fmt.Errorf("version: %d is not 1", m.Version)
	}
	if len(m.TargetRefs) == 0 || len(m.TargetRefs) > maxBoundsEntries {
		return nil, fmt.Errorf("target_refs: between 1 and %d patterns are needed", maxBoundsEntries)
	}
	for _, p := range m.TargetRefs {
		if !strings.HasPrefix(p, branchPrefix) || len(p) > maxRefBytes || !doublestar.ValidatePattern(p) {
			return nil, fmt.Errorf("target_refs: %q is not a pattern of branches (%s…)", p, branchPrefix)
		}
	}
	return &m, m.Bounds.Validate()
}

// allowsTarget reports whether the manifest names the branch.
func (m *Manifest) allowsTarget(ref string) bool { return matchesAny(m.TargetRefs, ref) }

// Digest identifies the manifest's content, whatever its layout.
func (m *Manifest) Digest() (string, error) { return canonical.Digest(evidence.DomainManifest, m) }
