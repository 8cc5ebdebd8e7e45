package repotx

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"

	"github.com/rein-aharness/harness/evidence"
)

// service is one of the two programs that a git remote offers.
type service string

const (
	uploadPack  service = "git-upload-pack"
	receivePack service = "git-receive-pack"
)

// transport opens conversations with one remote.
type transport interface {
	open(ctx context.Context, svc service) (conversation, error)
	close()
}

// conversation is one run of a service: at most one advertisement, then at most one exchange. Its context is that of open.
type conversation interface {
	// advertisement reads what the remote offers. Over http it may be left out before an exchange.
	advertisement(limit int64) (Advertisement, error)
	// exchange sends the parts as one request and returns the answer, which ends with errAnswerTooLong after limit bytes.
	exchange(limit int64, parts ...[]byte) (io.Reader, error)
	close()
}

// remoteError is a fault of the remote or of the way to it, with the code that it ends a run with.
type remoteError struct {
	code evidence.Code
	err  error
}

func (e *remoteError) Error() string { return e.err.Error() }
func (e *remoteError) Unwrap() error { return e.err }

func denied(err error) error      { return &remoteError{evidence.CodeRemoteDenied, err} }
func unreachable(err error) error { return &remoteError{evidence.CodeRemoteUnreachable, err} }

// classify makes a run's failure of a fault met at a stage. What no transport classified is CodeRemoteUnreachable: the
// remote did not answer in a form that this package accepts.
func classify(stage evidence.Stage, subject string, err error) error {
	var failure *evidence.Failure
	if errors.As(err, &failure) {
		return err
	}
	code := evidence.CodeRemoteUnreachable
	var remote *remoteError
	if errors.As(err, &remote) {
		code = remote.code
	}
	return evidence.Fail(stage, code, subject, err)
}

// errAnswerTooLong ends an answer that is longer than was agreed to read.
var errAnswerTooLong = errors.New("the remote's answer is longer than allowed")

// bounded reads at most n bytes and fails, instead of ending, when there is more.
type bounded struct {
	r io.Reader
	n int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if int64(len(p)) > b.n+1 {
		p = p[:b.n+1]
	}
	n, err := b.r.Read(p)
	if b.n -= int64(n); b.n < 0 {
		return 0, errAnswerTooLong
	}
	return n, err
}

// newTransport picks the transport for a canonical repository and refuses authentication of the other one's kind.
func newTransport(repo Repository, auth Auth) (transport, error) {
	u, err := url.Parse(repo.URL)
	if err != nil {
		return nil, errors.New("repository URL does not parse")
	}
	switch u.Scheme {
	case "http", "https":
		if kind := auth.Kind(); kind != AuthNone && kind != AuthBasic {
			return nil, fmt.Errorf("a %s remote cannot be authenticated to by %s", u.Scheme, kind)
		}
		return newHTTPTransport(u, auth)
	case "ssh":
		if kind := auth.Kind(); kind != AuthSSHKey && kind != AuthSSHCertificate {
			return nil, fmt.Errorf("an ssh remote cannot be authenticated to by %s", kind)
		}
		return newSSHTransport(u, auth)
	default:
		return nil, fmt.Errorf("no transport for scheme %q", u.Scheme)
	}
}
