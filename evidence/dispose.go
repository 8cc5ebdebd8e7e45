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
	OutcomeRetryLease      Outcome = "retry_lease"      // owned: again for as long as the lease holds, then lease loss
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

// verdict is one row of the table: what a code leads to, whatever the stage, unless one of the stages' own rules below comes
// first.
type verdict struct {
	code    Code
	outcome Outcome
}

var verdicts = []verdict{
	{CodeContractInvalid, OutcomeRefused},
	{CodeValueInContract, OutcomeRefused},
	{CodeProfileMalformed, OutcomeRefused},
	{CodeTriggerConflict, OutcomeRefused},
	{CodeOperationConflict, OutcomeRefused},
	{CodeBaselineUnresolved, OutcomeRefused},
	{CodeRepositoryEmpty, OutcomeRefused},
	{CodeRepositoryMalformed, OutcomeRefused},
	{CodeRepositoryMismatch, OutcomeRefused},
	{CodeSuccessorNotAllowed, OutcomeRefused},

	{CodeProfileUnknown, OutcomeRefused},
	{CodeProfileDigestMismatch, OutcomeRefused},
	{CodeProfileImmutable, OutcomeRefused},
	{CodeProfileBlocked, OutcomeRefused},
	{CodeProfileDisabled, OutcomeRefused},
	{CodeProfileUnverified, OutcomeRefused},
	{CodeProfileNotReady, OutcomeRefused},
	{CodeProfileIncompatible, OutcomeRefused},
	{CodePinMismatch, OutcomeRefused},
	{CodeActorInvalid, OutcomeRefused},
	{CodeReachabilityAmbiguous, OutcomeRefused},
	{CodeRuntimeMissing, OutcomeRefused},
	{CodeImageMissing, OutcomeRefused},
	{CodeLimitNotEnforced, OutcomeRefused},
	{CodeAdmissionDenied, OutcomeRefused},
	{CodeApprovalRequired, OutcomeWaitApproval},

	{CodeManifestMissing, OutcomeRefused},
	{CodeManifestMalformed, OutcomeRefused},
	{CodeGrantEmpty, OutcomeRefused},
	{CodeRefNotGranted, OutcomeRefused},
	{CodeRemoteUnsupported, OutcomeRefused},
	{CodeRemoteUnreachable, OutcomeFailed},
	{CodeRemoteDenied, OutcomeFailed},
	{CodeBaselineMoved, OutcomeNotApplied},
	{CodeFenceConflict, OutcomeReconcile},
	{CodePublicationUnclear, OutcomeSettle},
	{CodePublicationRefused, OutcomeNotApplied},
	{CodePublicationPartial, OutcomePartial},
	{CodePackTooLarge, OutcomeNotApplied},
	{CodePathNotGranted, OutcomeNotApplied},
	{CodePathProtected, OutcomeNotApplied},
	{CodePathInvalid, OutcomeNotApplied},
	{CodePathCollision, OutcomeNotApplied},
	{CodeModeRefused, OutcomeNotApplied},
	{CodeSymlinkRefused, OutcomeNotApplied},
	{CodeGitlinkRefused, OutcomeNotApplied},
	{CodeCredentialInChange, OutcomeNotApplied},
	{CodeCommitMalformed, OutcomeNotApplied},
	{CodeCacheExhausted, OutcomeFailed},
	{CodeSessionEvidenceGone, OutcomeNotApplied},

	{CodeSandboxCreateFailed, OutcomeFailed},
	{CodeImageMismatch, OutcomeFailed},
	{CodeIsolationMismatch, OutcomeFailed},
	{CodeSandboxLost, OutcomeFailed},
	{CodeCredentialFailed, OutcomeFailed},
	{CodeCredentialUndeclared, OutcomeFailed},
	{CodeSessionStartFailed, OutcomeFailed},
	{CodeSessionFailed, OutcomeFailed},
	{CodeSessionTimeout, OutcomeFailed},
	{CodeOutputExceeded, OutcomeFailed},
	{CodeMemoryExceeded, OutcomeFailed},
	{CodeSessionNotQuiescent, OutcomeFailed},
	{CodeCaptureFailed, OutcomeFailed},
	{CodeStreamMalformed, OutcomeFailed},
	{CodeLengthMismatch, OutcomeFailed},
	{CodeFileTypeRefused, OutcomeFailed},
	{CodeFileUnreadable, OutcomeFailed},
	{CodeEntriesExceeded, OutcomeFailed},
	{CodeBytesExceeded, OutcomeFailed},
	{CodeDepthExceeded, OutcomeFailed},
	{CodeDiskExceeded, OutcomeFailed},
	{CodeTeardownFailed, OutcomeFailed},
	{CodeRevocationFailed, OutcomeFailed},

	{CodeLeaseLost, OutcomeReconcile},
	{CodeWorkerLost, OutcomeFailed},
	{CodeCancelled, OutcomeCancelled},
	{CodeDeadlinePassed, OutcomeExpired},
	{CodePaused, OutcomeRetryLease},
	{CodeStoreFailed, OutcomeRetryLease},
	{CodeCloseFailed, OutcomeSettle},
	{CodeSigningFailed, OutcomeFailed},
	{CodeSettleUnknown, OutcomeWaitExternal},
	{CodeDeliveryFailed, OutcomeDeliverAgain},
	{CodeUnclassified, OutcomeFailed},
}

// Codes lists every code.
func Codes() []Code {
	codes := make([]Code, len(verdicts))
	for i, v := range verdicts {
		codes[i] = v.code
	}
	return codes
}

// Dispose says what a failure with this code in this stage leads to. The empty code is success. A code or a stage outside the
// closed sets is unclassified and therefore terminal. After a terminal failure of a run that had begun, a fence that exists is
// still tombstoned before the run closes, and what that shows about the effect goes before Disposition.Effect. (A8, A43)
func Dispose(stage Stage, code Code) Disposition {
	if code == "" {
		return dispositionOf(OutcomeCompleted)
	}
	if !slices.Contains(Stages(), stage) {
		return dispositionOf(OutcomeFailed)
	}
	i := slices.IndexFunc(verdicts, func(v verdict) bool { return v.code == code })
	if i < 0 {
		i = len(verdicts) - 1 // unclassified
	}
	return dispositionOf(inStage(stage, verdicts[i]))
}

// inStage applies the rules of a stage to a row of the table.
func inStage(stage Stage, v verdict) Outcome {
	transport := slices.Contains([]Code{CodeStoreFailed, CodeRemoteUnreachable, CodePaused}, v.code)
	switch stage {
	case StageEmit:
		if transport {
			return OutcomeRetryPoll // nothing exists yet, so nothing can be lost
		}
		return OutcomeDefinitionError
	case StageClaim:
		if transport {
			return OutcomeRetryPoll
		}
	case StageAccept:
		// The intent may be out already: only the remote knows.
		if slices.Contains([]Code{CodeRemoteUnreachable, CodeRemoteDenied}, v.code) {
			return OutcomeSettle
		}
	case StageClose:
		// Whatever keeps a run from being closed, its transaction is what it is. (A44)
		if slices.Contains([]Code{CodeStoreFailed, CodeSigningFailed, CodeCredentialFailed, CodeUnclassified}, v.code) {
			return OutcomeSettle
		}
	case StageDeliver:
		return OutcomeDeliverAgain
	case StageReconcile:
		// A reconciler that cannot find out has found out nothing. (B32)
		if v.outcome == OutcomeFailed && v.code != CodeWorkerLost || transport {
			return OutcomeWaitExternal
		}
	}
	return v.outcome
}

func dispositionOf(o Outcome) Disposition {
	i := slices.IndexFunc(dispositions, func(d Disposition) bool { return d.Outcome == o })
	return dispositions[i]
}
