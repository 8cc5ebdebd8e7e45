package queue

import (
	"fmt"
	"time"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/internal/canonical"
)

// Record is what is told outward of a run that has ended. Every record names the run and its transaction, is a copy of what the
// evidence says, and is never read back: nothing that an endpoint does or answers makes work or changes any. (A50)
type Record string

// The records.
const (
	RecordResult  Record = "result"  // Result: how the run ended
	RecordHistory Record = "history" // History: who decided and did what, when
	RecordMetrics Record = "metrics" // Metrics: how long it took and how much it was
)

// Records lists every record.
func Records() []Record { return []Record{RecordResult, RecordHistory, RecordMetrics} }

// History is the record of a run's work and of the decisions about it.
type History struct {
	Version      int               `json:"version"` // 1
	Record       Record            `json:"record"`
	Run          string            `json:"run"`
	Transaction  string            `json:"transaction"` // empty when none was intended
	Definition   string            `json:"definition"`
	OperationKey string            `json:"operation_key"`
	Supersedes   string            `json:"supersedes"` // the run of the attempt before
	Attended     bool              `json:"attended"`
	Operator     string            `json:"operator"`
	State        evidence.State    `json:"state"`
	Effect       evidence.Effect   `json:"effect"`
	Disposition  evidence.Outcome  `json:"disposition"`
	Claims       []HistoryClaim    `json:"claims"`
	Decisions    []HistoryDecision `json:"decisions"`
	Facts        []HistoryFact     `json:"facts"`
}

// HistoryClaim is one epoch of a run: which worker had it, on which engine.
type HistoryClaim struct {
	Epoch  int64          `json:"epoch"`
	Owner  string         `json:"owner"`
	Engine string         `json:"engine"`
	Stage  evidence.Stage `json:"stage"` // claim, or reconcile when it was taken over
	At     string         `json:"at"`
}

// HistoryDecision is one thing that was decided about the run: an admission, a cancellation, a settlement or a failure.
type HistoryDecision struct {
	Stage   evidence.Stage `json:"stage"`
	Kind    evidence.Kind  `json:"kind"`
	Outcome string         `json:"outcome"`
	ID      string         `json:"id"` // of an admission
	By      string         `json:"by"`
	At      string         `json:"at"`
}

// HistoryFact names a fact of the evidence.
type HistoryFact struct {
	Seq    int            `json:"seq"`
	Kind   evidence.Kind  `json:"kind"`
	Stage  evidence.Stage `json:"stage"`
	Epoch  int64          `json:"epoch"`
	At     string         `json:"at"`
	Digest string         `json:"digest"`
}

// Metrics are the figures of a run. Durations are in milliseconds, and 0 for what it did not come to.
type Metrics struct {
	Version       int             `json:"version"` // 1
	Record        Record          `json:"record"`
	Run           string          `json:"run"`
	Transaction   string          `json:"transaction"`
	Definition    string          `json:"definition"`
	Profile       string          `json:"profile"`
	Repository    string          `json:"repository"`
	State         evidence.State  `json:"state"`
	Effect        evidence.Effect `json:"effect"`
	Code          evidence.Code   `json:"code"`
	Claims        int             `json:"claims"`
	WaitedMillis  int64           `json:"waited_ms"`  // from the emission to the first claim
	WorkedMillis  int64           `json:"worked_ms"`  // from there to the close
	SessionMillis int64           `json:"session_ms"` // of the rein alone
	OutputBytes   int64           `json:"output_bytes"`
	ChangedCount  int             `json:"changed_count"`
	Insertions    int64           `json:"insertions"`
	Deletions     int64           `json:"deletions"`
	PackBytes     int64           `json:"pack_bytes"`
	Facts         int             `json:"facts"`
}

// records makes the body of every record of a run from its closed chain.
func records(r Run, result []byte, facts []evidence.Fact) (map[Record][]byte, error) {
	history := History{
		Version: 1, Record: RecordHistory, Run: r.ID, Definition: r.Definition, OperationKey: r.OperationKey, Supersedes: r.Supersedes, Attended: r.Attended,
		Operator: r.Operator, Claims: []HistoryClaim{}, Decisions: []HistoryDecision{}, Facts: []HistoryFact{},
	}
	metrics := Metrics{Version: 1, Record: RecordMetrics, Run: r.ID, Definition: r.Definition, Profile: r.Profile, Repository: r.Repository, Facts: len(facts)}
	var emitted, claimed time.Time
	for _, f := range facts {
		body, err := f.Open()
		if err != nil {
			return nil, err
		}
		at, err := evidence.ParseTime(f.At)
		if err != nil {
			return nil, err
		}
		history.include(f, body)
		metrics.include(body)
		switch body.(type) {
		case evidence.Emitted:
			emitted = at
		case evidence.Claimed:
			if metrics.Claims == 1 {
				claimed, metrics.WaitedMillis = at, at.Sub(emitted).Milliseconds()
			}
		case evidence.Closed:
			if metrics.Claims > 0 {
				metrics.WorkedMillis = at.Sub(claimed).Milliseconds()
			}
		}
	}
	bodies := map[Record][]byte{RecordResult: result}
	for record, document := range map[Record]any{RecordHistory: history, RecordMetrics: metrics} {
		data, err := canonical.Marshal(document)
		if err != nil {
			return nil, fmt.Errorf("the record %s: %w", record, err)
		}
		bodies[record] = data
	}
	return bodies, nil
}

func (h *History) include(f evidence.Fact, body evidence.Body) {
	h.Facts = append(h.Facts, HistoryFact{Seq: f.Seq, Kind: f.Kind, Stage: f.Stage, Epoch: f.Epoch, At: f.At, Digest: f.Digest})
	decide := func(outcome, id, by string) {
		h.Decisions = append(h.Decisions, HistoryDecision{Stage: f.Stage, Kind: f.Kind, Outcome: outcome, ID: id, By: by, At: f.At})
	}
	switch b := body.(type) {
	case evidence.Claimed:
		h.Claims = append(h.Claims, HistoryClaim{Epoch: f.Epoch, Owner: b.Owner, Engine: b.Engine, Stage: f.Stage, At: f.At})
	case evidence.Admitted:
		decide(b.Outcome, b.DecisionID, "policy")
	case evidence.Intended:
		h.Transaction = b.Transaction
	case evidence.Found:
		h.Transaction = b.Transaction
	case evidence.Cancelled:
		decide("cancelled", "", b.By)
	case evidence.Failed:
		decide(string(b.Code), "", "")
	case evidence.Settled:
		decide(string(b.Effect), "", b.By)
	case evidence.Closed:
		h.State, h.Effect, h.Disposition = b.State, b.Effect, b.Disposition
	}
}

func (m *Metrics) include(body evidence.Body) {
	switch b := body.(type) {
	case evidence.Claimed:
		m.Claims++
	case evidence.SessionEnded:
		m.SessionMillis, m.OutputBytes = b.DurationMillis, b.OutputBytes
	case evidence.Intended:
		m.Transaction, m.ChangedCount, m.Insertions, m.Deletions = b.Transaction, b.ChangedCount, b.Insertions, b.Deletions
		m.PackBytes = b.PackBytes
	case evidence.Found:
		m.Transaction = b.Transaction
	case evidence.Closed:
		m.State, m.Effect, m.Code = b.State, b.Effect, b.Code
	}
}
