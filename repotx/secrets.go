package repotx

import (
	"context"
	"errors"
	"io"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/internal/secretform"
)

// ScanSecrets refuses a change that holds a value released to the session, in its content, in a name or in a link's target,
// in any form that secretform knows. The failure is CodeCredentialInChange; it names the file, but not a file whose name
// holds the value. (A34)
func ScanSecrets(ctx context.Context, cs ChangeSet, values [][]byte) error {
	matcher := secretform.NewMatcher(secretform.Forms(values...))
	for _, c := range cs.Changes {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if matcher.Contains([]byte(c.Path)) {
			return evidence.Fail(evidence.StageAccept, evidence.CodeCredentialInChange, "", errors.New("in a file's name"))
		}
		if c.Kind == Deleted {
			continue
		}
		search := matcher.Search()
		if _, err := io.Copy(search, cs.content(c)); err != nil {
			return evidence.Fail(evidence.StageAccept, evidence.CodeCaptureFailed, c.Path, err)
		}
		if search.Found() {
			return evidence.Fail(evidence.StageAccept, evidence.CodeCredentialInChange, c.Path, nil)
		}
	}
	return nil
}
