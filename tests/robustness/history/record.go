package history

import "time"

// Record is everything that is known of one deployment under faults, in the end.
type Record struct {
	Seed         uint64        `json:"seed"`
	Leases       []LeaseOp     `json:"leases"`
	Transactions []Transaction `json:"transactions"`
	Changes      []Change      `json:"changes"`
	Transitions  []Transition  `json:"transitions"`
	Emissions    []Emission    `json:"emissions"`
	Runs         []Run         `json:"runs"`
	Commits      []CommitOn    `json:"commits"`
	Left         []Left        `json:"left"`
	Samples      []Sample      `json:"samples"`
}

// Emission is one call of Emit that was answered.
type Emission struct {
	TriggerKey string `json:"trigger_key"`
	Run        string `json:"run"`
	Created    bool   `json:"created"`
}

// Run is how a run ended.
type Run struct {
	ID          string `json:"id"`
	Trigger     string `json:"trigger"`
	Repository  string `json:"repository"` // its folder
	TargetRef   string `json:"target_ref"`
	State       string `json:"state"`
	Final       bool   `json:"final"`
	Effect      string `json:"effect"`
	Disposition string `json:"disposition"`
	Stage       string `json:"stage,omitempty"` // that failed
	Code        string `json:"code,omitempty"`
	Epoch       int64  `json:"epoch"`
	Commit      string `json:"commit,omitempty"` // that was intended
	// Unverified says what the verification of its evidence found; empty when it verifies.
	Unverified string `json:"unverified,omitempty"`
}

// CommitOn is a commit in the history of a branch of a remote that was not there in the beginning.
type CommitOn struct {
	Repository string `json:"repository"`
	Ref        string `json:"ref"`
	Hash       string `json:"hash"`
	Run        string `json:"run"` // by its trailer
}

// Left is something that should be gone in the end.
type Left struct {
	What string `json:"what"` // "container", "volume", "token", "fence", "job" or "lock"
	Name string `json:"name"`
	Run  string `json:"run,omitempty"`
}

// Sample is what one process used at one time.
type Sample struct {
	Worker      string        `json:"worker"`
	Process     int           `json:"process"`
	At          time.Duration `json:"at"` // since the beginning
	Memory      int64         `json:"memory"`
	Descriptors int           `json:"descriptors"`
	Threads     int           `json:"threads"`
	Goroutines  int           `json:"goroutines"`
}
