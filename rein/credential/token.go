package credential

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"
)

// Purpose is what a child token is for. Each purpose of a run has a token of its own.
type Purpose string

// The purposes.
const (
	PurposeSession   Purpose = "session"   // what the sandboxed session gets
	PurposePublish   Purpose = "publish"   // the git remote, from preflight until the run is settled
	PurposeSigning   Purpose = "signing"   // the key that signs evidence at close
	PurposeReconcile Purpose = "reconcile" // the git remote, for whoever settles the run
	PurposeCheck     Purpose = "check"     // a readiness check, of no run
)

// Valid reports whether p is a known purpose.
func (p Purpose) Valid() bool {
	switch p {
	case PurposeSession, PurposePublish, PurposeSigning, PurposeReconcile, PurposeCheck:
		return true
	default:
		return false
	}
}

// Holder is whom a child token is created for. It becomes the token's metadata in Vault.
type Holder struct {
	Run     string
	Epoch   int64
	Owner   string
	Purpose Purpose
}

var holderForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,199}$`)

func (h Holder) validate() error {
	switch {
	case !h.Purpose.Valid():
		return errors.New("the token's purpose is unknown")
	case !holderForm.MatchString(h.Run):
		return errors.New("the token's run is not a plain id")
	case !holderForm.MatchString(h.Owner):
		return errors.New("the token's owner is not a plain id")
	case h.Epoch < 1 && h.Purpose != PurposeCheck:
		return fmt.Errorf("the token's epoch %d is none", h.Epoch)
	default:
		return nil
	}
}

// Token is what the ledger keeps of a child token: never the token itself.
type Token struct {
	Accessor  string
	Run       string
	Epoch     int64
	Purpose   Purpose
	ExpiresAt time.Time
}

// Ledger remembers accessors, so that any worker can revoke a token whose creator is gone. (A30)
type Ledger interface {
	// RecordToken is called before the token's first use. When it fails, the token is revoked and the session not opened.
	RecordToken(ctx context.Context, token Token) error
	// TokenRevoked is called when Vault has confirmed that the accessor is unknown.
	TokenRevoked(ctx context.Context, accessor string) error
}
