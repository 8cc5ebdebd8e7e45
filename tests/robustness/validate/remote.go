package validate

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/rein-aharness/harness/tests/robustness/history"
)

// transactions: each by itself. A branch moves only together with an open fence that goes to the same commit, which its own lease has
// made; nothing moves a fence that is closed, or that holds a commit, but its deletion.
func transactions(r history.Record) []Violation {
	var all []Violation
	for _, t := range r.Transactions {
		add := func(name, format string, arguments ...any) {
			all = append(all, Violation{name, t.Repository, fmt.Sprintf(format, arguments...)})
		}
		moved := map[string]history.Update{} // fences that took a commit, by it
		for _, u := range t.Updates {
			run, isFence := strings.CutPrefix(u.Ref, history.FencePrefix)
			if !isFence {
				continue
			}
			if u.New.Kind != history.Absent && u.New.Run != run {
				add("fence_of_another_run", "%s goes to the %s of run %s", u.Ref, u.New.Kind, u.New.Run)
			}
			switch {
			case u.New.Kind == history.Absent:
			case u.Old.Kind == history.Tombstone:
				add("push_after_tombstone", "%s goes to a %s of epoch %d after it was closed by %d", u.Ref, u.New.Kind, u.New.Epoch, u.Old.Epoch)
			case u.Old.Kind == history.Commit:
				add("fence_moved_from_commit", "%s goes from commit %s to a %s", u.Ref, u.Old.Hash, u.New.Kind)
			case u.New.Kind == history.Commit:
				moved[u.New.Hash] = u
				if u.Old.Kind != history.Fence || u.Old.Epoch != u.New.Epoch {
					add("fence_adopted", "%s goes to a commit of epoch %d from a %s of epoch %d", u.Ref, u.New.Epoch, u.Old.Kind, u.Old.Epoch)
				}
			case u.New.Epoch <= u.Old.Epoch && u.New.Kind == history.Fence, u.New.Epoch < u.Old.Epoch:
				add("fence_epoch_fell", "%s goes to a %s of epoch %d from epoch %d", u.Ref, u.New.Kind, u.New.Epoch, u.Old.Epoch)
			}
		}
		for _, u := range t.Updates {
			if strings.HasPrefix(u.Ref, history.FencePrefix) || u.Old.Hash == u.New.Hash {
				continue
			}
			if _, with := moved[u.New.Hash]; !with {
				add("push_without_fence", "%s goes from %s to %s of run %s", u.Ref, u.Old.Hash, u.New.Hash, u.New.Run)
			}
			delete(moved, u.New.Hash)
		}
		for _, u := range moved {
			add("fence_without_branch", "%s takes commit %s, and no branch does", u.Ref, u.New.Hash)
		}
	}
	return all
}

// remoteModel holds the refs of one remote as a register each. A transaction finds every old value and leaves every new one; one that
// nobody saw ended may have been done up to any of its updates.
func remoteModel(begin map[string]string) porcupine.Model {
	return (&porcupine.NondeterministicModel{
		Init: func() []any { return []any{begin} },
		Step: func(state, input, _ any) []any {
			return remoteStep(state.(map[string]string), input.(history.Transaction))
		},
		Equal: func(a, b any) bool {
			return maps.Equal(a.(map[string]string), b.(map[string]string))
		},
	}).ToModel()
}

func remoteStep(refs map[string]string, t history.Transaction) []any {
	var states []any
	if t.Outcome != history.OK {
		states = append(states, refs)
	}
	for _, u := range t.Updates {
		if refs[u.Ref] != u.Old.Hash {
			return states
		}
	}
	next := maps.Clone(refs)
	for i, u := range t.Updates {
		if next[u.Ref] = u.New.Hash; u.New.Hash == "" {
			delete(next, u.Ref)
		}
		if t.Outcome != history.OK && i < len(t.Updates)-1 {
			states = append(states, maps.Clone(next))
		}
	}
	return append(states, next)
}

func remotes(r history.Record) []Violation {
	var all []Violation
	names, groups := by(r.Transactions, func(t history.Transaction) string { return t.Repository })
	for _, name := range names {
		begin := map[string]string{}
		seen := map[string]bool{}
		operations := make([]porcupine.Operation, 0, len(groups[name]))
		for _, t := range groups[name] {
			for _, u := range t.Updates { // what a ref was before its first transaction
				if !seen[u.Ref] && u.Old.Hash != "" {
					begin[u.Ref] = u.Old.Hash
				}
				seen[u.Ref] = true
			}
			end := t.Return
			if t.Outcome != history.OK {
				end = math.MaxInt64
			}
			operations = append(operations, porcupine.Operation{Input: t, Call: t.Call, Return: end})
		}
		switch porcupine.CheckOperationsTimeout(remoteModel(begin), operations, checkWithin) {
		case porcupine.Illegal:
			all = append(all, Violation{"remote_history_impossible", name, fmt.Sprintf("%d transactions", len(operations))})
		case porcupine.Unknown:
			all = append(all, Violation{"remote_history_unchecked", name, fmt.Sprintf("%d transactions", len(operations))})
		}
	}
	return all
}

// commits: one at most of each run, none of a run that is not confirmed, and one of each that is.
func commits(r history.Record) []Violation {
	var all []Violation
	add := func(name, subject, format string, arguments ...any) {
		all = append(all, Violation{name, subject, fmt.Sprintf(format, arguments...)})
	}
	confirmed := map[string]history.Run{}
	for _, run := range r.Runs {
		if run.Effect == "confirmed" {
			confirmed[run.ID] = run
		}
	}
	of := map[string][]string{} // commits by run
	on := map[string]bool{}
	for _, c := range r.Commits {
		on[c.Repository+" "+c.Ref+" "+c.Hash] = true
		if c.Run == "" {
			add("commit_of_nobody", c.Repository, "%s on %s", c.Hash, c.Ref)
			continue
		}
		if !slices.Contains(of[c.Run], c.Hash) {
			of[c.Run] = append(of[c.Run], c.Hash)
		}
	}
	for _, run := range slices.Sorted(maps.Keys(of)) {
		if len(of[run]) > 1 {
			add("two_commits", run, "%s", strings.Join(of[run], ", "))
		}
		if _, found := confirmed[run]; !found {
			add("commit_of_unconfirmed_run", run, "%s", strings.Join(of[run], ", "))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(confirmed)) {
		run := confirmed[id]
		if !on[run.Repository+" "+run.TargetRef+" "+run.Commit] {
			add("confirmed_without_commit", id, "%q is not on %s of %s", run.Commit, run.TargetRef, run.Repository)
		}
	}
	return all
}
