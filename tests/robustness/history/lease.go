package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/rein-aharness/harness/queue"
)

// Outcome is what is known of an operation.
type Outcome string

// The outcomes. Whatever failed and whatever was not answered is unknown: it may have been applied, now or later.
const (
	OK      Outcome = "ok"
	Lost    Outcome = "lost"    // refused, since the lease was no longer the caller's
	Refused Outcome = "refused" // refused for another reason; it changed nothing
	Unknown Outcome = "unknown"
)

// The operations on a lease that change who holds it. Every other one is a guarded write.
const (
	Claim    = "claim"
	TakeOver = "reconcile"
	Cancel   = "cancel"
	Close    = "close"
	Release  = "release"
	Defer    = "defer"
	Start    = "start"
)

// LeaseOp is one operation on the lease of a run. The times are nanoseconds of one monotonic clock.
type LeaseOp struct {
	Op      string  `json:"op"`
	Run     string  `json:"run"`
	Owner   string  `json:"owner,omitempty"`
	Epoch   int64   `json:"epoch"`
	Call    int64   `json:"call"`
	Return  int64   `json:"return,omitempty"` // 0: never answered
	Outcome Outcome `json:"outcome"`
	Error   string  `json:"error,omitempty"`
}

// line is what a worker appends: one when an operation begins, one when it is answered.
type line struct {
	LeaseOp
	ID string `json:"id"`
}

// ReadLeases reads the files that workers append to. An operation without an answer is unknown.
func ReadLeases(paths ...string) ([]LeaseOp, error) {
	var ids []string
	ops := map[string]LeaseOp{}
	for _, path := range paths {
		err := eachLine(path, func(text string) error {
			var l line
			if err := json.Unmarshal([]byte(text), &l); err != nil {
				return err
			}
			begun, known := ops[l.ID]
			if !known {
				if l.Call == 0 {
					return fmt.Errorf("operation %s ends and never began", l.ID)
				}
				l.Outcome = Unknown
				ids = append(ids, l.ID)
				ops[l.ID] = l.LeaseOp
				return nil
			}
			l.Call, l.Outcome = begun.Call, outcome(l.Error)
			ops[l.ID] = l.LeaseOp
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	all := make([]LeaseOp, 0, len(ids))
	for _, id := range ids {
		all = append(all, ops[id])
	}
	return all, nil
}

// outcome reads what the text of an error says about what was done. The texts are the queue's own.
func outcome(text string) Outcome {
	if text == "" {
		return OK
	}
	if strings.Contains(text, queue.ErrLeaseLost.Error()) {
		return Lost
	}
	for _, refusal := range []error{
		queue.ErrNotClaimable, queue.ErrRefLocked, queue.ErrPaused, queue.ErrNotFound, queue.ErrFinal, queue.ErrStarted,
	} {
		if strings.Contains(text, refusal.Error()) {
			return Refused
		}
	}
	return Unknown
}

// Outcomes of an operation that the caller of this package did itself.
func OutcomeOf(err error) (Outcome, string) {
	if err == nil {
		return OK, ""
	}
	return outcome(err.Error()), err.Error()
}

func eachLine(path string, read func(string) error) error {
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		if err := read(lines.Text()); err != nil {
			return fmt.Errorf("%s:%d: %w", path, n, err)
		}
	}
	return lines.Err()
}
