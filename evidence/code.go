package evidence

// Code says what went wrong, in one closed set. What a code leads to is decided in one place (Dispose).
type Code string

// Emission: no run exists yet, so these are definition errors.
const (
	CodeContractInvalid     Code = "contract_invalid"      // the request does not decode or validate
	CodeValueInContract     Code = "value_in_contract"     // a field that could carry a secret value
	CodeProfileMalformed    Code = "profile_malformed"     // not an exact name@version#digest, or the document does not validate
	CodeTriggerConflict     Code = "trigger_conflict"      // same trigger key, other request
	CodeOperationConflict   Code = "operation_conflict"    // same operation key, other request content
	CodeBaselineUnresolved  Code = "baseline_unresolved"   // the base ref does not exist on the remote
	CodeRepositoryEmpty     Code = "repository_empty"      // the remote has no commit to stand on
	CodeRepositoryMalformed Code = "repository_malformed"  // the URL has no canonical identity, or carries a credential
	CodeRepositoryMismatch  Code = "repository_mismatch"   // grant and repository differ
	CodeSuccessorNotAllowed Code = "successor_not_allowed" // the superseded run's effect does not permit another attempt
)

// Selection, before any sandbox exists.
const (
	CodeProfileUnknown        Code = "profile_unknown"
	CodeProfileDigestMismatch Code = "profile_digest_mismatch"
	CodeProfileImmutable      Code = "profile_immutable" // the version is published with other bytes
	CodeProfileBlocked        Code = "profile_blocked"
	CodeProfileDisabled       Code = "profile_disabled"
	CodeProfileUnverified     Code = "profile_unverified" // unverified, and the run is not a labelled proof
	CodeProfileNotReady       Code = "profile_not_ready"  // readiness expired, or of another engine
	CodeProfileIncompatible   Code = "profile_incompatible"
	CodePinMismatch           Code = "pin_mismatch" // one of the seven pins differs from what was emitted
	CodeActorInvalid          Code = "actor_invalid"
	CodeReachabilityAmbiguous Code = "reachability_ambiguous"
	CodeRuntimeMissing        Code = "runtime_missing" // the engine lacks the profile's runtime
	CodeImageMissing          Code = "image_missing"   // the engine lacks the image under that id
	CodeLimitNotEnforced      Code = "limit_not_enforced"
	CodeAdmissionDenied       Code = "admission_denied"
	CodeApprovalRequired      Code = "approval_required"
)

// Preflight and publication: the repository's side.
const (
	CodeManifestMissing     Code = "manifest_missing"
	CodeManifestMalformed   Code = "manifest_malformed"
	CodeGrantEmpty          Code = "grant_empty"        // the intersection of definition, profile and manifest allows nothing
	CodeRefNotGranted       Code = "ref_not_granted"    // the target ref is not granted, or is the harness's own
	CodeRemoteUnsupported   Code = "remote_unsupported" // no atomic or no report-status, and fencing is not waived
	CodeRemoteUnreachable   Code = "remote_unreachable"
	CodeRemoteDenied        Code = "remote_denied" // the remote refused the credential
	CodeBaselineMoved       Code = "baseline_moved"
	CodeFenceConflict       Code = "fence_conflict"      // the run's fence is not what this epoch created
	CodePublicationUnclear  Code = "publication_unclear" // no clear answer; settled from the remote
	CodePublicationRefused  Code = "publication_refused" // settled: the remote took nothing
	CodePublicationPartial  Code = "publication_partial" // the fence moved, the branch did not
	CodePackTooLarge        Code = "pack_too_large"
	CodePathNotGranted      Code = "path_not_granted"
	CodePathProtected       Code = "path_protected"
	CodePathInvalid         Code = "path_invalid"   // .git in any spelling, "..", control characters, bad UTF-8, too long
	CodePathCollision       Code = "path_collision" // duplicates, case-fold or NFC collisions, file beside folder of one name
	CodeModeRefused         Code = "mode_refused"
	CodeSymlinkRefused      Code = "symlink_refused"
	CodeGitlinkRefused      Code = "gitlink_refused"
	CodeCredentialInChange  Code = "credential_in_change"
	CodeCommitMalformed     Code = "commit_malformed" // a newline or NUL in a name, address or trailer
	CodeCacheExhausted      Code = "cache_exhausted"
	CodeSessionEvidenceGone Code = "session_evidence_missing" // acceptance without sandbox or session evidence
)

// Sandbox, session and capture.
const (
	CodeSandboxCreateFailed  Code = "sandbox_create_failed"
	CodeImageMismatch        Code = "image_mismatch"
	CodeIsolationMismatch    Code = "isolation_mismatch" // declared and observed posture differ
	CodeSandboxLost          Code = "sandbox_lost"       // PID 1 ended early or the wire broke
	CodeCredentialFailed     Code = "credential_failed"
	CodeCredentialUndeclared Code = "credential_undeclared"
	CodeSessionStartFailed   Code = "session_start_failed"
	CodeSessionFailed        Code = "session_failed" // the rein ended with a non-zero exit
	CodeSessionTimeout       Code = "session_timeout"
	CodeOutputExceeded       Code = "output_exceeded"
	CodeMemoryExceeded       Code = "memory_exceeded"
	CodeSessionNotQuiescent  Code = "session_not_quiescent" // processes were left that could not be killed
	CodeCaptureFailed        Code = "capture_failed"
	CodeStreamMalformed      Code = "stream_malformed" // the change stream is not what the protocol allows
	CodeLengthMismatch       Code = "length_mismatch"
	CodeFileTypeRefused      Code = "file_type_refused" // FIFO, socket, device
	CodeFileUnreadable       Code = "file_unreadable"
	CodeEntriesExceeded      Code = "entries_exceeded"
	CodeBytesExceeded        Code = "bytes_exceeded"
	CodeDepthExceeded        Code = "depth_exceeded"
	CodeDiskExceeded         Code = "disk_exceeded" // the worker's own budget for images, volumes or caches
	CodeTeardownFailed       Code = "teardown_failed"
	CodeRevocationFailed     Code = "revocation_failed"
)

// Ownership and operation.
const (
	CodeLeaseLost      Code = "lease_lost"
	CodeWorkerLost     Code = "worker_lost" // the lease expired; a reconciler settled the run
	CodeCancelled      Code = "cancelled"
	CodeDeadlinePassed Code = "deadline_passed"
	CodePaused         Code = "paused"
	CodeStoreFailed    Code = "store_failed" // the database did not answer while owning, within the TTL
	CodeCloseFailed    Code = "close_failed"
	CodeSigningFailed  Code = "signing_failed"
	CodeSettleUnknown  Code = "settle_unknown"  // the remote could not decide; an operator or a later pass will
	CodeDeliveryFailed Code = "delivery_failed" // a projection outward did not succeed
	CodeUnclassified   Code = "unclassified"    // no other code fits; fails closed
)
