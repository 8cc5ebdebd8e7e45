package faults

// Phase is how far a run has come.
type Phase int

// The phases.
const (
	Unclaimed Phase = iota // nobody has the lease
	Claimed                // the lease is taken, the start is not committed
	Started                // nothing was sent that could move the branch
	Sent                   // the commit is on the branch, the run is not closed
	Closed                 // the run is closed
)

// Point is a boundary between two steps of a run: a failpoint.
type Point struct {
	Name    string
	Phase   Phase
	Sandbox bool // a sandbox exists
	What    string
}

// Points are all boundaries, in the order in which a run passes them.
func Points() []Point {
	return []Point{
		{"claim.before", Unclaimed, false, "the job is at hand"},
		{"claim.after", Claimed, false, "the lease is taken, nobody renews it yet"},
		{"resolve.before", Claimed, false, "the lease is kept"},
		{"resolve.after", Claimed, false, "the profile is resolved"},
		{"admit.before", Claimed, false, "the admission begins"},
		{"admit.after", Claimed, false, "the run is admitted"},
		{"preflight.before", Claimed, false, "the start is not committed"},
		{"preflight.started", Started, false, "the start is committed, nothing was asked of Vault or the remote"},
		{"preflight.after", Started, false, "the baseline is fetched"},
		{"sandbox.before", Started, false, "neither fence nor sandbox exists"},
		{"sandbox.after", Started, true, "fence and sandbox exist"},
		{"session.before", Started, true, "the session has no credential"},
		{"session.after", Started, true, "the session has ended"},
		{"capture.before", Started, true, "the sandbox is not quiesced"},
		{"capture.after", Started, true, "the change is captured"},
		{"teardown.before", Started, true, "sandbox and credential still exist"},
		{"teardown.after", Started, false, "sandbox and credential are gone"},
		{"accept.before", Started, false, "the commit is not built"},
		{"accept.before_intent", Started, false, "the commit is built, the intent is not stored"},
		{"accept.after_intent", Started, false, "the intent is stored"},
		{"accept.before_send", Started, false, "the lease was checked for the last time"},
		{"accept.after_send", Sent, false, "the remote has answered, nothing was read back"},
		{"accept.after", Sent, false, "the commit was read back"},
		{"close.before", Sent, false, "the signing key is not taken"},
		{"close.after_sign", Sent, false, "the evidence is signed, the transaction that closes is open"},
		{"close.after", Closed, false, "the run is closed"},
	}
}

// beforeSend is the last boundary before the branch is asked for.
const beforeSend = "accept.before_send"
