package evidence

import "slices"

// Outcome names what a failure leads to. The set is closed.
type Outcome string

// The outcomes. Each has one Disposition.
const (
	OutcomeCompleted       Outcome = "completed"        // no failure
	OutcomeNoChange        Outcome = "no_change"        // no failure, and nothing had to change: no commit, nothing was sent
	OutcomeDefinitionError Outcome = "definition_error" // nothing was emitted
	OutcomeRefused         Outcome = "refused"          // terminal, before any change could be made
	OutcomeFailed          Outcome = "failed"           // terminal, with the stage's evidence
	OutcomeNotApplied      Outcome = "not_applied"      // terminal, the change was refused here or by the remote
	OutcomeCancelled       Outcome = "cancelled"
	OutcomeExpired         Outcome = "expired"          // the run's own deadline passed
	OutcomeRetryPoll       Outcome = "retry_poll"       // not owned yet: again after the full polling interval
	OutcomeGiveBack        Outcome = "give_back"        // owned, and nothing was begun: the run goes back into the queue
	OutcomeRetryLease      Outcome = "retry_lease"      // owned: again for as long as a lease lasts, then the run fails or the lease is lost
	OutcomeReconcile       Outcome = "reconcile"        // stop dispatch, refuse acceptance, clean up; a reconciler settles
	OutcomeSettle          Outcome = "settle"           // the remote decides about the same transaction
	OutcomeWaitApproval    Outcome = "waiting_approval" // let go of lease and sandbox until a human answers
	OutcomeWaitExternal    Outcome = "waiting_external" // unknown stays unknown until the remote can be asked, or an operator decides
	OutcomePartial         Outcome = "partial"          // the fence moved and the branch did not: an operator decides
	OutcomeDeliverAgain    Outcome = "deliver_again"    // the run stays as it is, its projection outward is retried
)

// Retry says when the same step may be tried again.
type Retry string

// The retries. A run that has begun is never executed again.
const (
	RetryNone  Retry = "none"
	RetryPoll  Retry = "poll"  // after the full polling interval, from the start of the claim
	RetryLease Retry = "lease" // inside the lease that is held
)

// Disposition is what a failure leads to.
type Disposition struct {
	Outcome Outcome
	// State is the final state in which the run closes, or the state in which it waits; empty where this failure moves the
	// run nowhere.
	State State
	// Effect is what holds as long as the remote has not settled otherwise; empty where the failure says nothing about it.
	Effect Effect
	Retry  Retry
	// Reconcile is set when the holder may not close the run: the fence and the remote decide first.
	Reconcile bool
	Exit      ExitCode
}

var dispositions = []Disposition{
	{OutcomeCompleted, StateCompleted, "", RetryNone, false, ExitCompleted},
	{OutcomeNoChange, StateCompleted, EffectNotDispatched, RetryNone, false, ExitCompleted},
	{OutcomeDefinitionError, "", EffectNotDispatched, RetryNone, false, ExitRefused},
	{OutcomeRefused, StateFailed, EffectNotDispatched, RetryNone, false, ExitRefused},
	{OutcomeFailed, StateFailed, EffectNotDispatched, RetryNone, false, ExitFailed},
	{OutcomeNotApplied, StateFailed, EffectNotApplied, RetryNone, false, ExitNotApplied},
	{OutcomeCancelled, StateCancelled, EffectNotDispatched, RetryNone, false, ExitCancelled},
	{OutcomeExpired, StateExpired, EffectNotDispatched, RetryNone, false, ExitExpired},
	{OutcomeRetryPoll, "", EffectNotDispatched, RetryPoll, false, ExitUnavailable},
	{OutcomeGiveBack, StateCreated, EffectNotDispatched, RetryPoll, false, ExitUnavailable},
	{OutcomeRetryLease, "", "", RetryLease, false, ExitUnavailable},
	{OutcomeReconcile, "", EffectUnknown, RetryNone, true, ExitUnknown},
	{OutcomeSettle, "", EffectUnknown, RetryNone, true, ExitUnknown},
	{OutcomeWaitApproval, StateWaitingApproval, EffectNotDispatched, RetryNone, false, ExitUnknown},
	{OutcomeWaitExternal, StateWaitingExternal, EffectUnknown, RetryNone, true, ExitUnknown},
	{OutcomePartial, StateWaitingExternal, EffectPartial, RetryNone, true, ExitPartial},
	{OutcomeDeliverAgain, "", "", RetryNone, false, ExitUnavailable},
}

// Outcomes lists every outcome.
func Outcomes() []Outcome {
	out := make([]Outcome, len(dispositions))
	for i, d := range dispositions {
		out[i] = d.Outcome
	}
	return out
}

// Disposition is what the outcome stands for.
func (o Outcome) Disposition() Disposition {
	i := slices.IndexFunc(dispositions, func(d Disposition) bool { return d.Outcome == o })
	return dispositions[i]
}

// Dispose says what a failure with this code in this stage leads to: what the Table says. The empty code is success. A code that
// has no row in the stage leads where an unclassified one does, and outside the closed set of stages it is terminal. After a
// terminal failure of a run that had begun, a fence that exists is still tombstoned before the run closes, and what that shows
// about the effect goes before Disposition.Effect. (A8, A43)
func Dispose(stage Stage, code Code) Disposition {
	if code == "" {
		return OutcomeCompleted.Disposition()
	}
	outcome := OutcomeFailed
	for _, row := range rows {
		if !slices.Contains(row.Stages, stage) {
			continue
		}
		switch row.Code {
		case code:
			return row.Outcome.Disposition()
		case CodeUnclassified:
			outcome = row.Outcome
		}
	}
	return outcome.Disposition()
}
