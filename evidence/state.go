package evidence

// State is where a run is. The set is closed; which moves between states are legal is decided by the queue.
type State string

// The states of a run.
const (
	StateCreated         State = "created"
	StateRunning         State = "running"
	StateWaitingApproval State = "waiting_approval"
	StateWaitingExternal State = "waiting_external"
	StateSuspended       State = "suspended"
	StateCancelRequested State = "cancel_requested"
	StateCompleted       State = "completed"
	StateFailed          State = "failed"
	StateCancelled       State = "cancelled"
	StateExpired         State = "expired"
)

// States lists every state.
func States() []State {
	return []State{
		StateCreated, StateRunning, StateWaitingApproval, StateWaitingExternal, StateSuspended, StateCancelRequested,
		StateCompleted, StateFailed, StateCancelled, StateExpired,
	}
}

// Final reports whether a run in this state is over for good.
func (s State) Final() bool {
	return s == StateCompleted || s == StateFailed || s == StateCancelled || s == StateExpired
}
