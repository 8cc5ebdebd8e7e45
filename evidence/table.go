package evidence

import "slices"

// Row is one line of the table of failures: a code, what it leads to, and the stages in which it does.
type Row struct {
	Code    Code
	Outcome Outcome
	Stages  []Stage
}

// table holds every code in every stage where it can arise, in the order of code.go. What it does not hold leads where
// CodeUnclassified does in that stage, which has a row for each.
func table() []Row {
	at := func(stages ...Stage) []Stage { return stages }
	// While a worker owns the run, from its first look at it to the acceptance; and that part of it in which something was begun.
	owning := at(StageResolve, StageAdmit, StagePreflight, StageSandbox, StageSession, StageCapture, StageTeardown, StageAccept)
	begun := owning[2:]
	// What is pinned is compared at the claim, and again right before the sandbox and the acceptance. At the acceptance there is a
	// change, which is then not applied.
	selecting := at(StageResolve, StageSandbox)
	reading := at(StageClaim, StageSandbox)

	return []Row{
		{CodeContractInvalid, OutcomeDefinitionError, at(StageEmit)},
		{CodeContractInvalid, OutcomeRefused, at(StageClaim, StagePreflight, StageSandbox)},
		{CodeContractInvalid, OutcomeNotApplied, at(StageAccept)},
		{CodeValueInContract, OutcomeDefinitionError, at(StageEmit)},
		{CodeProfileMalformed, OutcomeDefinitionError, at(StageEmit)},
		{CodeProfileMalformed, OutcomeRefused, reading},
		{CodeProfileMalformed, OutcomeNotApplied, at(StageAccept)},
		{CodeTriggerConflict, OutcomeDefinitionError, at(StageEmit)},
		{CodeOperationConflict, OutcomeDefinitionError, at(StageEmit)},
		{CodeBaselineUnresolved, OutcomeDefinitionError, at(StageEmit)},
		{CodeRepositoryEmpty, OutcomeDefinitionError, at(StageEmit)},
		{CodeRepositoryMalformed, OutcomeDefinitionError, at(StageEmit)},
		{CodeRepositoryMalformed, OutcomeRefused, reading},
		{CodeRepositoryMalformed, OutcomeNotApplied, at(StageAccept)},
		{CodeRepositoryMismatch, OutcomeDefinitionError, at(StageEmit)},
		{CodeSuccessorNotAllowed, OutcomeDefinitionError, at(StageEmit)},
		{CodeSuccessorNotAllowed, OutcomeRefused, at(StagePreflight)},

		{CodeProfileUnknown, OutcomeRefused, selecting},
		{CodeProfileUnknown, OutcomeNotApplied, at(StageAccept)},
		{CodeProfileDigestMismatch, OutcomeDefinitionError, at(StageEmit)},
		{CodeProfileDigestMismatch, OutcomeRefused, selecting},
		{CodeProfileDigestMismatch, OutcomeNotApplied, at(StageAccept)},
		{CodeProfileImmutable, OutcomeDefinitionError, at(StageEmit)},
		{CodeProfileBlocked, OutcomeRefused, selecting},
		{CodeProfileBlocked, OutcomeNotApplied, at(StageAccept)},
		{CodeProfileDisabled, OutcomeRefused, selecting},
		{CodeProfileDisabled, OutcomeNotApplied, at(StageAccept)},
		{CodeProfileUnverified, OutcomeRefused, selecting},
		{CodeProfileUnverified, OutcomeNotApplied, at(StageAccept)},
		{CodeProfileNotReady, OutcomeRefused, selecting},
		{CodeProfileNotReady, OutcomeNotApplied, at(StageAccept)},
		{CodeProfileIncompatible, OutcomeRefused, selecting},
		{CodeProfileIncompatible, OutcomeNotApplied, at(StageAccept)},
		{CodePinMismatch, OutcomeDefinitionError, at(StageEmit)},
		{CodePinMismatch, OutcomeRefused, at(StageClaim, StageResolve, StageSandbox)},
		{CodePinMismatch, OutcomeNotApplied, at(StageAccept)},
		{CodeActorInvalid, OutcomeRefused, selecting},
		{CodeActorInvalid, OutcomeNotApplied, at(StageAccept)},
		{CodeReachabilityAmbiguous, OutcomeDefinitionError, at(StageEmit)},
		{CodeReachabilityAmbiguous, OutcomeRefused, at(StageSandbox)},
		{CodeRuntimeMissing, OutcomeRefused, at(StageSandbox)},
		{CodeImageMissing, OutcomeRefused, at(StageSandbox)},
		{CodeLimitNotEnforced, OutcomeRefused, at(StageSandbox)},
		{CodeAdmissionDenied, OutcomeRefused, at(StageAdmit)},
		{CodeApprovalRequired, OutcomeWaitApproval, at(StageAdmit)},

		{CodeManifestMissing, OutcomeRefused, at(StagePreflight)},
		{CodeManifestMalformed, OutcomeRefused, at(StagePreflight)},
		{CodeGrantEmpty, OutcomeRefused, at(StagePreflight)},
		{CodeRefNotGranted, OutcomeDefinitionError, at(StageEmit)},
		{CodeRefNotGranted, OutcomeRefused, at(StageClaim, StagePreflight, StageSandbox)},
		{CodeRefNotGranted, OutcomeNotApplied, at(StageAccept)},
		{CodeRemoteUnsupported, OutcomeRefused, at(StagePreflight)},
		// Before there is a run nothing can be lost; once an intent may be out, only the remote knows; and a reconciler that
		// cannot find out has found out nothing. (B32)
		{CodeRemoteUnreachable, OutcomeRetryPoll, at(StageEmit)},
		{CodeRemoteUnreachable, OutcomeFailed, at(StagePreflight)},
		{CodeRemoteUnreachable, OutcomeSettle, at(StageAccept)},
		{CodeRemoteUnreachable, OutcomeWaitExternal, at(StageReconcile)},
		{CodeRemoteDenied, OutcomeDefinitionError, at(StageEmit)},
		{CodeRemoteDenied, OutcomeFailed, at(StagePreflight)},
		{CodeRemoteDenied, OutcomeSettle, at(StageAccept)},
		{CodeRemoteDenied, OutcomeWaitExternal, at(StageReconcile)},
		{CodeBaselineMoved, OutcomeNotApplied, at(StagePreflight, StageAccept)},
		{CodeFenceConflict, OutcomeSettle, at(StagePreflight)},
		{CodeFenceConflict, OutcomeWaitExternal, at(StageAccept, StageReconcile)},
		{CodePublicationUnclear, OutcomeSettle, at(StagePreflight, StageAccept)},
		{CodePublicationRefused, OutcomeNotApplied, at(StageAccept)},
		{CodePublicationPartial, OutcomePartial, at(StageAccept, StageReconcile)},
		{CodePackTooLarge, OutcomeRefused, at(StagePreflight)},
		{CodePackTooLarge, OutcomeNotApplied, at(StageAccept)},
		{CodePathNotGranted, OutcomeNotApplied, at(StageAccept)},
		{CodePathProtected, OutcomeNotApplied, at(StageAccept)},
		// At the preflight it is the baseline that cannot be worked on, afterwards the change.
		{CodePathInvalid, OutcomeRefused, at(StagePreflight)},
		{CodePathInvalid, OutcomeNotApplied, at(StageCapture, StageAccept)},
		{CodePathCollision, OutcomeRefused, at(StagePreflight)},
		{CodePathCollision, OutcomeNotApplied, at(StageCapture, StageAccept)},
		{CodeModeRefused, OutcomeRefused, at(StagePreflight)},
		{CodeModeRefused, OutcomeNotApplied, at(StageCapture)},
		{CodeSymlinkRefused, OutcomeRefused, at(StagePreflight)},
		{CodeSymlinkRefused, OutcomeNotApplied, at(StageAccept)},
		{CodeGitlinkRefused, OutcomeNotApplied, at(StageAccept)},
		{CodeCredentialInChange, OutcomeNotApplied, at(StageAccept)},
		{CodeCommitMalformed, OutcomeNotApplied, at(StageAccept)},
		{CodeCacheExhausted, OutcomeFailed, at(StagePreflight)},
		{CodeSessionEvidenceGone, OutcomeNotApplied, at(StageAccept)},

		{CodeSandboxCreateFailed, OutcomeFailed, at(StageSandbox)},
		{CodeImageMismatch, OutcomeFailed, at(StageSandbox)},
		{CodeIsolationMismatch, OutcomeFailed, at(StageSandbox)},
		{CodeSandboxLost, OutcomeFailed, at(StageSession, StageCapture)},
		// Whatever keeps a run from being closed, its transaction is what it is. (A44)
		{CodeCredentialFailed, OutcomeFailed, at(StageResolve, StagePreflight, StageSession)},
		{CodeCredentialFailed, OutcomeSettle, at(StageClose)},
		{CodeCredentialFailed, OutcomeWaitExternal, at(StageReconcile)},
		{CodeCredentialUndeclared, OutcomeFailed, at(StageResolve, StagePreflight, StageSession)},
		{CodeCredentialUndeclared, OutcomeSettle, at(StageClose)},
		{CodeCredentialUndeclared, OutcomeWaitExternal, at(StageReconcile)},
		{CodeSessionStartFailed, OutcomeFailed, at(StageSession)},
		{CodeSessionFailed, OutcomeFailed, at(StageSession)},
		{CodeSessionTimeout, OutcomeFailed, at(StageSession)},
		{CodeOutputExceeded, OutcomeFailed, at(StageSession)},
		{CodeMemoryExceeded, OutcomeFailed, at(StageSession)},
		{CodeSessionNotQuiescent, OutcomeFailed, at(StageCapture)},
		{CodeCaptureFailed, OutcomeFailed, at(StageCapture, StageAccept)},
		{CodeStreamMalformed, OutcomeFailed, at(StageSession, StageCapture)},
		{CodeLengthMismatch, OutcomeFailed, at(StageCapture)},
		{CodeFileTypeRefused, OutcomeFailed, at(StageCapture)},
		{CodeFileUnreadable, OutcomeFailed, at(StageCapture)},
		{CodeEntriesExceeded, OutcomeRefused, at(StagePreflight)},
		{CodeEntriesExceeded, OutcomeFailed, at(StageCapture)},
		{CodeBytesExceeded, OutcomeRefused, at(StagePreflight)},
		{CodeBytesExceeded, OutcomeFailed, at(StageCapture)},
		{CodeDepthExceeded, OutcomeRefused, at(StagePreflight)},
		{CodeDepthExceeded, OutcomeFailed, at(StageCapture)},
		{CodeDiskExceeded, OutcomeFailed, at(StageSandbox, StageSession, StageCapture)},
		{CodeTeardownFailed, OutcomeFailed, at(StageTeardown, StageAccept)},
		{CodeRevocationFailed, OutcomeFailed, at(StageTeardown)},

		{CodeLeaseLost, OutcomeReconcile, owning},
		{CodeWorkerLost, OutcomeGiveBack, at(StageResolve, StageAdmit)},
		{CodeWorkerLost, OutcomeFailed, append(slices.Clone(begun), StageReconcile)},
		{CodeCancelled, OutcomeCancelled, append(slices.Clone(owning), StageReconcile)},
		{CodeDeadlinePassed, OutcomeExpired, at(StageReconcile)},
		{CodePaused, OutcomeRetryPoll, at(StageClaim)},
		{CodePaused, OutcomeNotApplied, at(StageAccept)},
		{CodeStoreFailed, OutcomeRetryPoll, at(StageClaim)},
		{CodeStoreFailed, OutcomeGiveBack, at(StageResolve)},
		{CodeStoreFailed, OutcomeRetryLease, begun},
		{CodeCloseFailed, OutcomeSettle, at(StageClose)},
		{CodeSigningFailed, OutcomeSettle, at(StageClose)},
		{CodeSettleUnknown, OutcomeWaitExternal, at(StageAccept, StageReconcile)},
		{CodeDeliveryFailed, OutcomeDeliverAgain, at(StageDeliver)},
		{CodeUnclassified, OutcomeDefinitionError, at(StageEmit)},
		{CodeUnclassified, OutcomeFailed, append(at(StageClaim), owning...)},
		{CodeUnclassified, OutcomeSettle, at(StageClose)},
		{CodeUnclassified, OutcomeDeliverAgain, at(StageDeliver)},
		{CodeUnclassified, OutcomeWaitExternal, at(StageReconcile)},
	}
}

// Read-only, once computed.
var (
	rows  = table()
	codes = codesOf(rows)
)

func codesOf(rows []Row) []Code {
	var codes []Code
	for _, r := range rows {
		if !slices.Contains(codes, r.Code) {
			codes = append(codes, r.Code)
		}
	}
	return codes
}

// Table is the whole table of failures. (A43)
func Table() []Row { return table() }

// Codes lists every code.
func Codes() []Code { return slices.Clone(codes) }
