//go:build !failpoint

package failpoint

// Point is a place between two steps.
type Point uint8

// The points inside a stage. Those around a stage go by its name.
const (
	ClaimBefore        Point = iota // the job is at hand, the lease is not taken
	ClaimAfter                      // the lease is taken, nobody renews it yet
	PreflightStarted                // the start is committed, nothing has been asked of Vault or the remote
	AcceptBeforeIntent              // the commit is built and checked, the intent is not stored
	AcceptAfterIntent               // the intent is stored, nothing was sent
	AcceptBeforeSend                // the lease was checked for the last time
	AcceptAfterSend                 // the remote has answered, nothing was read back
	CloseBefore                     // the remote is settled, the signing key is not taken
	CloseAfterSign                  // the evidence is signed, nothing of the close is stored
	CloseAfter                      // the run is closed
)

// Hit does what the point is armed for: nothing, in this build.
func Hit(Point) error { return nil }

// Around does one stage between its two points, "<stage>.before" and "<stage>.after": only do, in this build.
func Around(_ string, do func() error) error { return do() }
