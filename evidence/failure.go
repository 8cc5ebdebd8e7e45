package evidence

import (
	"errors"
	"fmt"
)

// Failure is an error that ends a run: where it arose, what it is, and which thing it is about. Stage, Code and Subject go
// into evidence; Err goes only into the log, so it may name hosts and paths, but never a secret value.
type Failure struct {
	Stage Stage
	Code  Code
	// Subject names the thing the failure is about: a path, a ref, a limit. It is bounded and escaped when it becomes a fact,
	// and never holds a secret, a prompt or output.
	Subject string
	Err     error
}

// Fail returns a *Failure. err may be nil when stage, code and subject say it all.
func Fail(stage Stage, code Code, subject string, err error) error {
	return &Failure{Stage: stage, Code: code, Subject: subject, Err: err}
}

func (f *Failure) Error() string {
	msg := fmt.Sprintf("%s: %s", f.Stage, f.Code)
	if f.Subject != "" {
		msg += fmt.Sprintf(" (%q)", f.Subject)
	}
	if f.Err != nil {
		msg += ": " + f.Err.Error()
	}
	return msg
}

func (f *Failure) Unwrap() error { return f.Err }

// CodeOf returns the code of the outermost Failure in err's tree, and CodeUnclassified for any other error: what nobody
// classified fails closed. (A43)
func CodeOf(err error) Code {
	var f *Failure
	if errors.As(err, &f) {
		return f.Code
	}
	return CodeUnclassified
}
