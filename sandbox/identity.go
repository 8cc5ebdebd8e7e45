package sandbox

import (
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/rein-aharness/harness/evidence"
)

// Identity says for whom a sandbox is. It becomes the container's labels, all of which anyone with the engine can read.
type Identity struct {
	Run       string
	Epoch     int64
	Owner     string
	Actor     evidence.Actor
	ExpiresAt time.Time // after this any janitor may remove the container
}

// Label keys of everything that this package creates.
const (
	labelRun     = "harness.run"
	labelEpoch   = "harness.epoch"
	labelOwner   = "harness.owner"
	labelExpires = "harness.expires" // unix seconds
	labelEngine  = "harness.engine"
	labelInit    = "harness.init" // digest of the binary that a volume holds
)

var (
	runForm   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$`)
	ownerForm = regexp.MustCompile(`^[!-~]{1,256}$`)
)

func (id Identity) validate() error {
	if !id.Actor.Valid() {
		return evidence.Fail(evidence.StageSandbox, evidence.CodeActorInvalid, string(id.Actor), nil) // A18
	}
	if !runForm.MatchString(id.Run) || id.Epoch <= 0 || !ownerForm.MatchString(id.Owner) || id.ExpiresAt.Unix() <= 0 {
		return evidence.Fail(evidence.StageSandbox, evidence.CodeSandboxCreateFailed, id.Run,
			fmt.Errorf("incomplete identity: run %q, epoch %d, owner %q, expires %s", id.Run, id.Epoch, id.Owner, id.ExpiresAt))
	}
	return nil
}

func (id Identity) labels(engine string) map[string]string {
	return map[string]string{
		labelRun: id.Run, labelEpoch: strconv.FormatInt(id.Epoch, 10), labelOwner: id.Owner,
		labelExpires: strconv.FormatInt(id.ExpiresAt.Unix(), 10), labelEngine: engine,
	}
}
