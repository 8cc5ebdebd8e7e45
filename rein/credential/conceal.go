package credential

import (
	"errors"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/internal/secretform"
)

// Conceal returns err as it is, unless what it says holds a value that was released to the session, in any form that secretform
// knows. Then it returns an error of the same meaning: a Failure keeps its stage and code, its subject is masked, and nothing else
// is said. Failures name files, and a session names its files as it likes. It must be called before Wipe. (A28)
func (s *Session) Conceal(err error) error {
	if err == nil {
		return nil
	}
	matcher := secretform.NewMatcher(secretform.Forms(s.Values()...))
	var failure *evidence.Failure
	subject := ""
	if errors.As(err, &failure) {
		subject = failure.Subject
	}
	// The subject is looked at by itself as well: it may be cut off inside a value.
	masked := mask(matcher, subject)
	if masked == subject && !matcher.Contains([]byte(err.Error())) {
		return err
	}
	if failure == nil {
		return concealed{err}
	}
	return evidence.Fail(failure.Stage, failure.Code, masked, concealed{err})
}

func mask(matcher *secretform.Matcher, text string) string {
	masker := matcher.Masker(Redacted)
	return string(masker.End(masker.Add(nil, []byte(text))))
}

// concealed is an error whose words are not to be seen. It still is what it wraps.
type concealed struct{ err error }

func (concealed) Error() string { return Redacted }

func (c concealed) Unwrap() error { return c.err }

// GoString keeps %#v from printing the fields.
func (concealed) GoString() string { return Redacted }
