package credential

import (
	"fmt"
	"regexp"
)

// revisionForm is `name@1.2.3`: exact, with nothing that could stand for more than one version.
var revisionForm = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}@(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})$`)

// CheckRevision refuses anything but an exact revision `name@1.2.3`. (A2)
func CheckRevision(revision string) error {
	if !revisionForm.MatchString(revision) {
		return fmt.Errorf("revision %.128q is not an exact name@1.2.3", revision)
	}
	return nil
}
