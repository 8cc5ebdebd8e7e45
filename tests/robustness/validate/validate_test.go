package validate

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/tests/robustness/history"
)

// sound is the record of one run that was claimed, executed and closed by a worker, after a first one was lost.
func sound() history.Record {
	const run, first, second = "run-1", "a/1", "b/1"
	branch, fence := "refs/heads/main", history.FencePrefix+run
	begin := history.Value{Hash: "b0", Kind: history.Commit}
	open := history.Value{Hash: "f2", Kind: history.Fence, Epoch: 2, Run: run}
	commit := history.Value{Hash: "c2", Kind: history.Commit, Epoch: 2, Run: run}
	none := history.Value{Kind: history.Absent}
	op := func(op, owner string, epoch, call, end int64, outcome history.Outcome) history.LeaseOp {
		return history.LeaseOp{Op: op, Run: run, Owner: owner, Epoch: epoch, Call: call, Return: end, Outcome: outcome}
	}
	return history.Record{
		Leases: []history.LeaseOp{
			op(history.Claim, first, 1, 10, 20, history.OK),
			op("heartbeat", first, 1, 30, 40, history.OK),
			op("heartbeat", first, 1, 50, 0, history.Unknown),
			op(history.Claim, second, 2, 60, 70, history.OK),
			op("stage", first, 1, 75, 80, history.Lost),
			op(history.Start, second, 2, 80, 90, history.OK),
			op(history.Close, second, 2, 100, 110, history.Unknown),
			op(history.Close, second, 2, 120, 130, history.Lost),
		},
		Transactions: []history.Transaction{
			{Repository: "r.git", Call: 85, Return: 86, Outcome: history.OK, Updates: []history.Update{{Ref: fence, Old: none, New: open}}},
			{Repository: "r.git", Call: 95, Return: 96, Outcome: history.OK, Updates: []history.Update{
				{Ref: fence, Old: open, New: commit}, {Ref: branch, Old: begin, New: commit},
			}},
			{Repository: "r.git", Call: 200, Return: 201, Outcome: history.OK, Updates: []history.Update{{Ref: fence, Old: commit, New: none}}},
		},
		Changes: []history.Change{
			{Seq: 1, Run: run, State: "created"},
			{Seq: 2, Run: run, Epoch: 1, Owner: first, WasState: "created", State: "running"},
			{Seq: 3, Run: run, WasEpoch: 1, Epoch: 2, WasOwner: first, Owner: second, WasState: "running", State: "running"},
			{Seq: 4, Run: run, WasEpoch: 2, Epoch: 2, WasOwner: second, Owner: second, WasState: "running", State: "completed", Final: true},
		},
		Transitions: []history.Transition{{From: "created", To: "running"}, {From: "running", To: "completed"}},
		Emissions:   []history.Emission{{TriggerKey: "t", Run: run, Created: true}, {TriggerKey: "t", Run: run}},
		Runs: []history.Run{{
			ID: run, Trigger: "t", Repository: "r.git", TargetRef: branch, State: "completed", Final: true, Effect: "confirmed", Commit: "c2",
		}},
		Commits: []history.CommitOn{{Repository: "r.git", Ref: branch, Hash: "c2", Run: run}},
		Samples: samples(20, 30, 100, 50<<20),
	}
}

// samples are those of a process that lives for ten minutes and ends with that many descriptors, threads, goroutines and bytes.
func samples(descriptors, threads, goroutines int, memory int64) []history.Sample {
	var all []history.Sample
	for at := time.Duration(0); at <= 10*time.Minute; at += 10 * time.Second {
		s := history.Sample{Worker: "w", Process: 1, At: at, Memory: 50 << 20, Descriptors: 20, Threads: 30, Goroutines: 100}
		if at > 5*time.Minute {
			s.Memory, s.Descriptors, s.Threads, s.Goroutines = memory, descriptors, threads, goroutines
		}
		all = append(all, s)
	}
	return all
}

func TestASoundRecordHasNoViolation(t *testing.T) {
	t.Parallel()
	require.Empty(t, All(sound()))
}

// A16, A36, A37, A41: a record that shows what must not happen is found out, by name.
func TestAForgedRecordIsFoundOutByName(t *testing.T) {
	t.Parallel()
	const run = "run-1"
	insert := func(r *history.Record, op history.LeaseOp) {
		op.Run = run
		r.Leases = append(r.Leases, op)
	}
	push := func(r *history.Record, i int, change func(*history.Transaction)) { change(&r.Transactions[i]) }
	for name, forge := range map[string]func(r *history.Record){
		"two_holders": func(r *history.Record) { // the first one's heartbeat succeeds after the second has the lease
			insert(r, history.LeaseOp{Op: "heartbeat", Owner: "a/1", Epoch: 1, Call: 72, Return: 74, Outcome: history.OK})
		},
		"written_by_stale_lease": func(r *history.Record) {
			insert(r, history.LeaseOp{Op: "intent", Owner: "a/1", Epoch: 1, Call: 92, Return: 94, Outcome: history.OK})
		},
		"closed_by_stale_lease": func(r *history.Record) {
			insert(r, history.LeaseOp{Op: history.Close, Owner: "a/1", Epoch: 1, Call: 92, Return: 94, Outcome: history.OK})
		},
		"epoch_reused": func(r *history.Record) {
			insert(r, history.LeaseOp{Op: history.TakeOver, Owner: "c/1", Epoch: 2, Call: 72, Return: 74, Outcome: history.OK})
		},
		"claim_out_of_turn": func(r *history.Record) {
			insert(r, history.LeaseOp{Op: history.TakeOver, Owner: "c/1", Epoch: 7, Call: 140, Return: 150, Outcome: history.OK})
		},
		"executed_again": func(r *history.Record) {
			r.Leases = r.Leases[:6]
			insert(r, history.LeaseOp{Op: history.Claim, Owner: "c/1", Epoch: 3, Call: 140, Return: 150, Outcome: history.OK})
		},
		"push_after_tombstone": func(r *history.Record) {
			push(r, 1, func(t *history.Transaction) {
				t.Updates[0].Old = history.Value{Hash: "d3", Kind: history.Tombstone, Epoch: 3, Run: run}
			})
		},
		"fence_moved_from_commit": func(r *history.Record) {
			push(r, 1, func(t *history.Transaction) {
				t.Updates[0].Old = history.Value{Hash: "c1", Kind: history.Commit, Epoch: 1, Run: run}
			})
		},
		"fence_adopted": func(r *history.Record) { push(r, 1, func(t *history.Transaction) { t.Updates[0].Old.Epoch = 1 }) },
		"fence_epoch_fell": func(r *history.Record) {
			push(r, 0, func(t *history.Transaction) {
				t.Updates[0].Old = history.Value{Hash: "f3", Kind: history.Fence, Epoch: 3, Run: run}
			})
		},
		"fence_of_another_run": func(r *history.Record) { push(r, 0, func(t *history.Transaction) { t.Updates[0].New.Run = "run-2" }) },
		"push_without_fence":   func(r *history.Record) { push(r, 1, func(t *history.Transaction) { t.Updates = t.Updates[1:] }) },
		"fence_without_branch": func(r *history.Record) { push(r, 1, func(t *history.Transaction) { t.Updates = t.Updates[:1] }) },
		"remote_history_impossible": func(r *history.Record) { // the fence is made a second time
			again := r.Transactions[0]
			again.Call, again.Return = 97, 98
			r.Transactions = append(r.Transactions, again)
		},
		"epoch_skipped":          func(r *history.Record) { r.Changes[2].Epoch = 4 },
		"owner_changed_in_epoch": func(r *history.Record) { r.Changes[3].Owner = "c/1" },
		"illegal_transition":     func(r *history.Record) { r.Changes[2].State = "created" },
		"changed_after_its_end":  func(r *history.Record) { r.Changes = append(r.Changes, r.Changes[3]) },
		"two_runs_of_a_trigger":  func(r *history.Record) { r.Emissions[1].Run = "run-2" },
		"created_twice":          func(r *history.Record) { r.Emissions[1].Created = true },
		"emission_lost":          func(r *history.Record) { r.Runs[0].Trigger = "another" },
		"not_final":              func(r *history.Record) { r.Runs[0].Final = false },
		"effect_undecided":       func(r *history.Record) { r.Runs[0].Effect = "partial" },
		"evidence_not_verified":  func(r *history.Record) { r.Runs[0].Unverified = "signature" },
		"two_commits": func(r *history.Record) {
			r.Commits = append(r.Commits, history.CommitOn{Repository: "r.git", Ref: "refs/heads/other", Hash: "c9", Run: run})
		},
		"commit_of_nobody":          func(r *history.Record) { r.Commits[0].Run = "" },
		"commit_of_unconfirmed_run": func(r *history.Record) { r.Runs[0].Effect = "not_applied" },
		"confirmed_without_commit":  func(r *history.Record) { r.Commits = nil },
		"container_left":            func(r *history.Record) { r.Left = []history.Left{{What: "container", Name: "x"}} },
		"token_left":                func(r *history.Record) { r.Left = []history.Left{{What: "token", Name: "x", Run: run}} },
		"descriptors_grow":          func(r *history.Record) { r.Samples = samples(60, 30, 100, 50<<20) },
		"threads_grow":              func(r *history.Record) { r.Samples = samples(20, 60, 100, 50<<20) },
		"goroutines_grow":           func(r *history.Record) { r.Samples = samples(20, 30, 200, 50<<20) },
		"memory_grows":              func(r *history.Record) { r.Samples = samples(20, 30, 100, 150<<20) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := sound()
			forge(&r)
			found := All(r)
			require.True(t, slices.ContainsFunc(found, func(v Violation) bool { return v.Name == name }), fmt.Sprint(found))
		})
	}
}

// A40: what was not answered may have happened: a close whose answer was lost is no violation, whichever way it went.
func TestWhatWasNotAnsweredMayHaveHappenedOrNot(t *testing.T) {
	t.Parallel()
	r := sound()
	applied := slices.Clone(r.Leases)
	notApplied := append(slices.Clone(r.Leases[:7]),
		history.LeaseOp{Op: "heartbeat", Run: "run-1", Owner: "b/1", Epoch: 2, Call: 120, Return: 130, Outcome: history.OK},
		history.LeaseOp{Op: history.Close, Run: "run-1", Owner: "b/1", Epoch: 2, Call: 140, Return: 150, Outcome: history.OK})
	unseen := append(slices.Clone(r.Leases[:3]), // a claim whose answer was lost has made epoch 2
		history.LeaseOp{Op: history.Claim, Run: "run-1", Owner: "b/1", Call: 60, Outcome: history.Unknown},
		history.LeaseOp{Op: history.TakeOver, Run: "run-1", Owner: "c/1", Epoch: 3, Call: 140, Return: 150, Outcome: history.OK})
	for _, ops := range [][]history.LeaseOp{applied, notApplied, unseen} {
		r.Leases = ops
		require.Empty(t, leases(r))
	}
	half := r.Transactions[1]
	half.Outcome, half.Return = history.Unknown, 0
	r.Transactions = []history.Transaction{r.Transactions[0], half}
	require.Empty(t, remotes(r), "the server died in the middle")
}
