package evidence

// Body is the content of one fact. The set of bodies is closed: one struct per Kind, defined in this package.
type Body interface {
	// Kind names the struct.
	Kind() Kind
	// body keeps other packages from adding kinds.
	body()
}

// Cuts is part of every body. It says what did not fit: per list or map, by its path in the body, how many entries were left
// out. Whoever makes a body leaves it empty.
type Cuts struct {
	Cut map[string]int `json:"cut,omitempty" items:"1024"`
}

// The bounds of a body's strings and lists where a field's tag sets no other: `max` in bytes for a string or each string of a
// list, `items` for the entries of a list or map.
const (
	defaultMaxString = 256
	defaultMaxItems  = 128
)

// Emitted says what was asked for. (A2, A13, A19, A20)
type Emitted struct {
	Cuts
	Definition       string            `json:"definition"`
	TriggerKeyDigest string            `json:"trigger_key_digest"`
	OperationKey     string            `json:"operation_key"`
	RequestDigest    string            `json:"request_digest"`
	ContractDigest   string            `json:"contract_digest"`
	Profile          string            `json:"profile"` // name@version
	ProfileDigest    string            `json:"profile_digest"`
	Repository       string            `json:"repository" max:"1024"` // canonical identity
	BaseRef          string            `json:"base_ref" max:"1024"`
	TargetRef        string            `json:"target_ref" max:"1024"`
	Baseline         string            `json:"baseline"` // commit
	Actor            Actor             `json:"actor"`
	Attended         bool              `json:"attended"`
	Operator         string            `json:"operator"` // of an attended run
	Supersedes       string            `json:"supersedes"`
	Proof            bool              `json:"proof"` // labelled as a proof of an unverified profile (A5)
	Refs             map[string]string `json:"refs"`  // attribution; decides nothing
}

// Claimed says who holds the lease. (A16, A17)
type Claimed struct {
	Cuts
	WorkerID  string `json:"worker_id"`
	Owner     string `json:"owner"` // worker id and nonce of the process
	Engine    string `json:"engine"`
	TTLMillis int64  `json:"ttl_ms"`
	ExpiresAt string `json:"expires_at"` // by the database's clock
}

// Resolved says which exact constellation was found. (A3, A4, A20)
type Resolved struct {
	Cuts
	Profile       string            `json:"profile"`
	ProfileDigest string            `json:"profile_digest"`
	Pins          map[string]string `json:"pins"` // digest per pinned part
	Readiness     string            `json:"readiness"`
	Proof         bool              `json:"proof"`
}

// Admitted says what the decision engine answered. (B5)
type Admitted struct {
	Cuts
	Outcome    string   `json:"outcome"` // allowed, approval_required or blocked
	Reasons    []string `json:"reasons"`
	DecisionID string   `json:"decision_id"`
}

// Started says that side effects may have begun from here on.
type Started struct {
	Cuts
	At string `json:"at"` // started_at, by the database's clock
}

// Preflighted says what the remote is able to do and where it stood before the session. (A33, B35)
type Preflighted struct {
	Cuts
	Capabilities   []string `json:"capabilities"`
	Fencing        string   `json:"fencing"` // fence or waived
	FenceRef       string   `json:"fence_ref" max:"1024"`
	FenceValue     string   `json:"fence_value"`
	BaseValue      string   `json:"base_value"`
	TargetValue    string   `json:"target_value"`
	ManifestDigest string   `json:"manifest_digest"`
	Manifest       string   `json:"manifest"` // found or waived
	PublishRoute   string   `json:"publish_route"`
	Proven         []string `json:"proven"` // links of the chain that the preflight exercised
}

// Sandboxed says what the session ran in. (A22, A24)
type Sandboxed struct {
	Cuts
	ContainerID   string            `json:"container_id"`
	Image         string            `json:"image"` // sha256 of the image's configuration
	Runtime       string            `json:"runtime"`
	Engine        string            `json:"engine"`
	EngineVersion string            `json:"engine_version"`
	InitDigest    string            `json:"init_digest"` // of the in-container init's binary
	Actor         Actor             `json:"actor"`
	Reachability  string            `json:"reachability"`
	Declared      map[string]string `json:"declared"`
	Observed      map[string]string `json:"observed"`
	NotEnforced   []string          `json:"not_enforced"` // limits that this runtime cannot hold
}

// NotEnforced is what Sandboxed.Observed says of a property that the runtime cannot hold.
const NotEnforced = "not_enforced"

// SessionEnded says how the session went. Its output is only measured. (A28)
type SessionEnded struct {
	Cuts
	Rein            string          `json:"rein"` // name@version
	ExitCode        int             `json:"exit_code"`
	Signal          string          `json:"signal"`
	DurationMillis  int64           `json:"duration_ms"`
	OutputBytes     int64           `json:"output_bytes"`
	OutputDigest    string          `json:"output_digest"` // of the session log as it is kept
	OutputTruncated bool            `json:"output_truncated"`
	Credentials     []CredentialUse `json:"credentials"`
}

// CredentialUse names a credential that a session could use, never its value. (A28, A31)
type CredentialUse struct {
	Route           string `json:"route"`
	TargetKind      string `json:"target_kind"` // file, env or gateway
	LifetimeSeconds int64  `json:"lifetime_seconds"`
	AccessorDigest  string `json:"accessor_digest"`
	Outcome         string `json:"outcome"`
}

// Captured counts what came out of the sandbox. (A34)
type Captured struct {
	Cuts
	Entries  int    `json:"entries"`
	Bytes    int64  `json:"bytes"`
	Added    int    `json:"added"`
	Modified int    `json:"modified"`
	Deleted  int    `json:"deleted"`
	Ignored  int    `json:"ignored"`
	Digest   string `json:"digest"` // of the change set
}

// TornDown says what is left of the session. (A26, A30)
type TornDown struct {
	Cuts
	ContainerGone bool `json:"container_gone"`
	VolumesGone   bool `json:"volumes_gone"`
	TokensRevoked int  `json:"tokens_revoked"`
	TokensLeft    int  `json:"tokens_left"`
	Quiesced      bool `json:"quiesced"` // every process of the session was seen to have ended before the capture
}

// Clean reports whether nothing of the session is left. Without that nothing is accepted. (A26)
func (t TornDown) Clean() bool { return t.ContainerGone && t.VolumesGone && t.TokensLeft == 0 }

// Intended says exactly what will be published. It is durable before the push is sent. (A35, A44)
type Intended struct {
	Cuts
	Transaction  string   `json:"transaction"`
	Commit       string   `json:"commit"`
	Tree         string   `json:"tree"`
	Baseline     string   `json:"baseline"`
	BaseRef      string   `json:"base_ref" max:"1024"`
	TargetRef    string   `json:"target_ref" max:"1024"`
	Old          string   `json:"old"` // the target's value before; all zeros when it is new
	FenceRef     string   `json:"fence_ref" max:"1024"`
	FenceValue   string   `json:"fence_value"`
	PackDigest   string   `json:"pack_digest"` // "sha256:" and the plain SHA-256 of the pack's bytes
	PackBytes    int64    `json:"pack_bytes"`
	ChangedPaths []string `json:"changed_paths" max:"4096" items:"1000"`
	ChangedCount int      `json:"changed_count"` // all of them, also those that were cut
	Insertions   int64    `json:"insertions"`
	Deletions    int64    `json:"deletions"`
}

// Published says what the remote answered and what it shows when read back. (A41)
type Published struct {
	Cuts
	Transaction string            `json:"transaction"`
	Answer      map[string]string `json:"answer"` // per ref; empty when there was no report
	Branch      string            `json:"branch"`
	Fence       string            `json:"fence"`
	Lease       string            `json:"lease"`     // held or expired_unclaimed
	ReadBack    bool              `json:"read_back"` // both refs were read from the push URL and hold the commit
}

// Found is a commit at the remote that names the run, whose record of what it intended is lost: the database was set back behind it. It
// says what can be read there and nothing of how the commit came about. (A44, A51)
type Found struct {
	Cuts
	By          string `json:"by"`          // the fence, or the branch alone
	Transaction string `json:"transaction"` // as the commit says, as are the next
	Profile     string `json:"profile"`
	Commit      string `json:"commit"`
	Tree        string `json:"tree"`
	Parent      string `json:"parent"`
}

// Settled says what the remote's terminal values decide. (B28, B32)
type Settled struct {
	Cuts
	By          string `json:"by"` // worker, reconciler or operator
	Transaction string `json:"transaction"`
	Effect      Effect `json:"effect"`
	Reason      string `json:"reason"`
	Fence       string `json:"fence"`
	Branch      string `json:"branch"`
	Displaced   bool   `json:"displaced"` // the commit landed and the branch was moved away from it later
}

// Cancelled says who asked for the end. (B34)
type Cancelled struct {
	Cuts
	By     string `json:"by"`
	Reason string `json:"reason"`
}

// Closed is the last fact of a worker or reconciler about a run. (A42, A48)
type Closed struct {
	Cuts
	State       State   `json:"state"`
	Effect      Effect  `json:"effect"`
	Stage       Stage   `json:"stage"` // where the run ended
	Code        Code    `json:"code"`  // empty for a run that completed
	Disposition Outcome `json:"disposition"`
}

// Failed names a failure: where, what, about which thing. Its text stays in the log. (A43)
type Failed struct {
	Cuts
	Stage   Stage  `json:"stage"`
	Code    Code   `json:"code"`
	Subject string `json:"subject"`
}
