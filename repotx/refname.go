package repotx

import (
	"fmt"
	"regexp"
	"strings"
)

const (
	branchPrefix  = "refs/heads/"
	harnessPrefix = "refs/harness/"
	fencePrefix   = harnessPrefix + "fence/"

	// maxRefBytes bounds a ref name; git hosts refuse far shorter ones.
	maxRefBytes = 512
)

var runPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// checkRefName applies the rules of git-check-ref-format to a full ref name.
func checkRefName(name string) error {
	switch {
	case len(name) > maxRefBytes:
		return fmt.Errorf("ref name is longer than %d bytes", maxRefBytes)
	case !strings.HasPrefix(name, "refs/") || strings.Count(name, "/") < 2:
		return fmt.Errorf("ref name %q is not of the form refs/<kind>/<name>", name)
	case strings.Contains(name, "..") || strings.Contains(name, "@{") || strings.HasSuffix(name, "."):
		return fmt.Errorf("ref name %q holds a sequence that git refuses", name)
	}
	for _, part := range strings.Split(name, "/") {
		if part == "" || strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".lock") {
			return fmt.Errorf("ref name %q has a component that git refuses", name)
		}
	}
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c == 0x7f || strings.IndexByte(`~^:?*[\`, c) >= 0 {
			return fmt.Errorf("ref name %q holds a character that git refuses", name)
		}
	}
	return nil
}

// checkBranch accepts a full branch name (refs/heads/…) and nothing else; so the harness's own refs are never a target.
func checkBranch(name string) error {
	if !strings.HasPrefix(name, branchPrefix) {
		return fmt.Errorf("ref %q is not a branch (%s…)", name, branchPrefix)
	}
	return checkRefName(name)
}

// FenceRef is the name of a run's fence ref on the remote. It refuses a run id that could not be one ref component.
func FenceRef(run string) (string, error) {
	if !runPattern.MatchString(run) {
		return "", fmt.Errorf("run id %q does not fit %s", run, runPattern)
	}
	return fencePrefix + run, nil
}
