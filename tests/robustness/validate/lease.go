package validate

import (
	"fmt"
	"math"
	"slices"

	"github.com/anishathalye/porcupine"

	"github.com/rein-aharness/harness/tests/robustness/history"
)

// lease is the state of one run's lease.
type lease struct {
	Epoch  int64
	Owner  string
	Held   bool // as far as anybody was told; a lease that expires unseen is still held here
	Closed bool
}

// leaseModel says what an operation may find and leave. A claim makes exactly the next epoch. Whatever a holder writes succeeds only in
// the current epoch and by its owner, and not after the lease was given back, closed, or once refused. What is unknown may have been
// applied or not.
func leaseModel() porcupine.Model {
	return (&porcupine.NondeterministicModel{
		Init: func() []any { return []any{lease{}} },
		Step: func(state, input, _ any) []any { return leaseStep(state.(lease), input.(history.LeaseOp)) },
	}).ToModel()
}

func leaseStep(s lease, op history.LeaseOp) []any {
	var applied []any
	switch op.Op {
	case history.Claim, history.TakeOver:
		if next := s.Epoch + 1; !s.Closed && (op.Outcome != history.OK || op.Epoch == next) {
			applied = []any{lease{Epoch: next, Owner: op.Owner, Held: true}}
		}
	case history.Cancel: // takes an epoch away from whoever has it, or only wakes a run that waits
		if !s.Closed {
			applied = []any{lease{Epoch: s.Epoch + 1}, s}
		}
	default:
		if s.Held && !s.Closed && s.Epoch == op.Epoch && s.Owner == op.Owner {
			next := s
			switch op.Op {
			case history.Close:
				next.Held, next.Closed = false, true
			case history.Release, history.Defer:
				next.Held = false
			}
			applied = []any{next}
		}
	}
	switch op.Outcome {
	case history.OK:
		return applied
	case history.Lost:
		if len(applied) > 0 {
			s.Held = false // it has expired, and does not come back
		}
		return []any{s}
	case history.Refused:
		return []any{s}
	default:
		return append(applied, s)
	}
}

func leases(r history.Record) []Violation {
	var all []Violation
	runs, ops := by(r.Leases, func(op history.LeaseOp) string { return op.Run })
	for _, run := range runs {
		switch checkLease(ops[run]) {
		case porcupine.Illegal:
			all = append(all, explainLease(run, ops[run]))
		case porcupine.Unknown:
			all = append(all, Violation{"lease_history_unchecked", run, fmt.Sprintf("%d operations", len(ops[run]))})
		}
	}
	return all
}

func checkLease(ops []history.LeaseOp) porcupine.CheckResult {
	var operations []porcupine.Operation
	for _, op := range ops {
		if op.Outcome == history.Refused {
			continue
		}
		end := op.Return
		if op.Outcome == history.Unknown {
			end = math.MaxInt64 // also what was answered with an error may be applied later
		}
		operations = append(operations, porcupine.Operation{Input: op, Call: op.Call, Return: end})
	}
	return porcupine.CheckOperationsTimeout(leaseModel(), operations, checkWithin)
}

// explainLease names the operation without which the history would be possible, the latest if there are several.
func explainLease(run string, ops []history.LeaseOp) Violation {
	for i := len(ops) - 1; i >= 0; i-- {
		if ops[i].Outcome != history.OK || checkLease(slices.Delete(slices.Clone(ops), i, i+1)) != porcupine.Ok {
			continue
		}
		op := ops[i]
		name := map[string]string{
			history.Claim: "claim_out_of_turn", history.TakeOver: "claim_out_of_turn", history.Close: "closed_by_stale_lease",
			"heartbeat": "two_holders", history.Cancel: "cancelled_out_of_turn",
		}[op.Op]
		if name == "" {
			name = "written_by_stale_lease"
		}
		return Violation{name, run, fmt.Sprintf("%s by %s in epoch %d, at %d to %d", op.Op, op.Owner, op.Epoch, op.Call, op.Return)}
	}
	return Violation{"lease_history_impossible", run, fmt.Sprintf("%d operations", len(ops))}
}

// claims: no epoch is given to two, and a run that was started is not claimed to be executed again.
func claims(r history.Record) []Violation {
	var all []Violation
	taken := map[string]history.LeaseOp{}
	started := map[string]int64{} // when the first start was answered
	for _, op := range r.Leases {
		if op.Outcome == history.OK && op.Op == history.Start {
			if at, found := started[op.Run]; !found || op.Return < at {
				started[op.Run] = op.Return
			}
		}
	}
	for _, op := range r.Leases {
		if op.Outcome != history.OK || op.Op != history.Claim && op.Op != history.TakeOver {
			continue
		}
		key := fmt.Sprintf("%s %d", op.Run, op.Epoch)
		if first, found := taken[key]; found {
			all = append(all, Violation{"epoch_reused", op.Run, fmt.Sprintf("epoch %d by %s and by %s", op.Epoch, first.Owner, op.Owner)})
		}
		taken[key] = op
		if at, found := started[op.Run]; found && op.Op == history.Claim && op.Call > at {
			all = append(all, Violation{"executed_again", op.Run, fmt.Sprintf("claimed by %s in epoch %d after it was started", op.Owner, op.Epoch)})
		}
	}
	return all
}
