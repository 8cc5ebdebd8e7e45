package profiles

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/internal/canonical"
	"github.com/rein-aharness/harness/rein/credential"
)

// Ref names one profile revision and its content. (A2)
type Ref struct {
	Name    string
	Version string
	Digest  string
}

// ParseRef reads `name@1.2.3#sha256:<64 hex>`. A reference that is absent, has no version or digest, or could stand for more
// than one content (latest, a range, a wildcard) is refused with the code profile_malformed. (A2, A9, A12)
func ParseRef(text string) (Ref, error) {
	revision, digest, found := strings.Cut(text, "#")
	var err error
	switch {
	case text == "":
		err = errors.New("there is no profile reference")
	case !found:
		err = errors.New("the profile reference has no #sha256 digest")
	case !canonical.ValidDigest(digest):
		err = errors.New("the profile reference's digest is not sha256 and 64 hex digits")
	default:
		err = credential.CheckRevision(revision)
	}
	if err != nil {
		return Ref{}, evidence.Fail(evidence.StageEmit, evidence.CodeProfileMalformed, fmt.Sprintf("%.160s", text), err)
	}
	name, version, _ := strings.Cut(revision, "@")
	return Ref{Name: name, Version: version, Digest: digest}, nil
}

// Revision is `name@version`.
func (r Ref) Revision() string { return r.Name + "@" + r.Version }

// String is what ParseRef reads.
func (r Ref) String() string { return r.Revision() + "#" + r.Digest }
