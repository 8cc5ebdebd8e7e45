package evidence

// ExitCode is what the command line ends with. The numbers are part of the interface.
type ExitCode int

// The exit codes.
const (
	ExitCompleted   ExitCode = 0  // completed; the change is confirmed, or nothing had to change
	ExitError       ExitCode = 1  // the command itself failed; it says nothing about a run
	ExitUsage       ExitCode = 2  // the command line is wrong
	ExitRefused     ExitCode = 3  // refused before any change could be made, or nothing was emitted
	ExitFailed      ExitCode = 4  // the run failed, or the evidence does not verify
	ExitCancelled   ExitCode = 5  // the run was cancelled
	ExitNotApplied  ExitCode = 6  // the change was made and not applied, as when the baseline had moved
	ExitUnknown     ExitCode = 7  // the run is not over, or its effect is not known yet
	ExitPartial     ExitCode = 8  // the fence moved and the branch did not; an operator decides
	ExitUnavailable ExitCode = 9  // a part was not there; the same command may succeed later
	ExitExpired     ExitCode = 10 // the run's deadline passed
)

// ExitOf is the exit code for a run as its row says it. disposition is the outcome stored at close and may be empty before.
func ExitOf(state State, effect Effect, disposition Outcome) ExitCode {
	switch {
	case effect == EffectPartial:
		return ExitPartial
	case !state.Final(), effect == EffectUnknown:
		return ExitUnknown
	case state == StateCompleted:
		return ExitCompleted
	case state == StateCancelled:
		return ExitCancelled
	case state == StateExpired:
		return ExitExpired
	case disposition == OutcomeRefused:
		return ExitRefused
	case effect == EffectNotApplied && disposition == OutcomeNotApplied:
		return ExitNotApplied
	default:
		return ExitFailed
	}
}
