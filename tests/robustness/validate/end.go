package validate

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/rein-aharness/harness/tests/robustness/history"
)

// changes: epochs rise by one, an owner changes only with the epoch, states follow the table, and nothing follows the last.
func changes(r history.Record) []Violation {
	legal := map[history.Transition]bool{}
	for _, t := range r.Transitions {
		legal[t] = true
	}
	var all []Violation
	final := map[string]bool{}
	for _, c := range r.Changes {
		add := func(name, format string, arguments ...any) {
			all = append(all, Violation{name, c.Run, fmt.Sprintf(format, arguments...)})
		}
		if final[c.Run] {
			add("changed_after_its_end", "to %s in epoch %d", c.State, c.Epoch)
		}
		if c.Epoch != c.WasEpoch && c.Epoch != c.WasEpoch+1 {
			add("epoch_skipped", "from %d to %d", c.WasEpoch, c.Epoch)
		}
		if c.Epoch == c.WasEpoch && c.Owner != c.WasOwner {
			add("owner_changed_in_epoch", "from %q to %q in epoch %d", c.WasOwner, c.Owner, c.Epoch)
		}
		if c.State != c.WasState && c.WasState != "" && !legal[history.Transition{From: c.WasState, To: c.State}] {
			add("illegal_transition", "from %s to %s", c.WasState, c.State)
		}
		final[c.Run] = c.Final
	}
	return all
}

// emissions: one trigger key is one run, made once.
func emissions(r history.Record) []Violation {
	var all []Violation
	keys, calls := by(r.Emissions, func(e history.Emission) string { return e.TriggerKey })
	made := map[string]int{}
	for _, run := range r.Runs {
		made[run.Trigger]++
	}
	for _, key := range keys {
		created := 0
		for _, call := range calls[key] {
			if call.Run != calls[key][0].Run {
				all = append(all, Violation{"two_runs_of_a_trigger", call.Run, "and " + calls[key][0].Run + " of " + key})
			}
			if call.Created {
				created++
			}
		}
		if created > 1 {
			all = append(all, Violation{"created_twice", calls[key][0].Run, key})
		}
		if made[key] != 1 {
			all = append(all, Violation{"emission_lost", calls[key][0].Run, fmt.Sprintf("%s has %d runs", key, made[key])})
		}
	}
	return all
}

// ends: every run is final with a decided effect, and its evidence verifies.
func ends(r history.Record) []Violation {
	var all []Violation
	for _, run := range r.Runs {
		if !run.Final {
			all = append(all, Violation{"not_final", run.ID, fmt.Sprintf("%s, %s, epoch %d", run.State, run.Effect, run.Epoch)})
			continue
		}
		if run.Effect == "unknown" || run.Effect == "partial" {
			all = append(all, Violation{"effect_undecided", run.ID, run.Effect})
		}
		if run.Unverified != "" {
			all = append(all, Violation{"evidence_not_verified", run.ID, run.Unverified})
		}
	}
	return all
}

func left(r history.Record) []Violation {
	var all []Violation
	for _, l := range r.Left {
		all = append(all, Violation{l.What + "_left", cmp.Or(l.Run, l.Name), l.Name})
	}
	return all
}

// How long a process must live to say anything about growth, how much of that is its youth, and how much it may grow then.
const (
	livesFor        = 3 * time.Minute
	youth           = time.Minute
	moreDescriptors = 16
	moreThreads     = 8
	moreGoroutines  = 32
	moreMemory      = 32 << 20
)

// resources: the medians of the last third of a long-lived process are those of the first third after its youth, within bounds that a
// load explains.
func resources(r history.Record) []Violation {
	var all []Violation
	for _, g := range Growths(r.Samples) {
		name := fmt.Sprintf("%s (%d)", g.Worker, g.Process)
		if g.Descriptors[1] > g.Descriptors[0]+moreDescriptors {
			all = append(all, Violation{"descriptors_grow", name, fmt.Sprintf("from %d to %d", g.Descriptors[0], g.Descriptors[1])})
		}
		if g.Threads[1] > g.Threads[0]+moreThreads {
			all = append(all, Violation{"threads_grow", name, fmt.Sprintf("from %d to %d", g.Threads[0], g.Threads[1])})
		}
		if g.Goroutines[1] > g.Goroutines[0]+moreGoroutines {
			all = append(all, Violation{"goroutines_grow", name, fmt.Sprintf("from %d to %d", g.Goroutines[0], g.Goroutines[1])})
		}
		if g.Memory[1] > g.Memory[0]+max(moreMemory, g.Memory[0]/2) {
			all = append(all, Violation{"memory_grows", name, fmt.Sprintf("from %d to %d bytes", g.Memory[0], g.Memory[1])})
		}
	}
	return all
}

// Growth holds the medians of the first and last third of a process's life after its youth.
type Growth struct {
	Worker      string        `json:"worker"`
	Process     int           `json:"process"`
	Lived       time.Duration `json:"lived"`
	Memory      [2]int64      `json:"memory"`
	Descriptors [2]int64      `json:"descriptors"`
	Threads     [2]int64      `json:"threads"`
	Goroutines  [2]int64      `json:"goroutines"`
}

// Growths are those of all processes that lived long enough.
func Growths(samples []history.Sample) []Growth {
	var all []Growth
	keys, lives := by(samples, func(s history.Sample) string { return fmt.Sprintf("%s %d", s.Worker, s.Process) })
	for _, key := range keys {
		life := lives[key]
		first, last := life[0], life[len(life)-1]
		if last.At-first.At < livesFor {
			continue
		}
		life = slices.DeleteFunc(slices.Clone(life), func(s history.Sample) bool { return s.At < first.At+youth })
		third := len(life) / 3
		if third == 0 {
			continue
		}
		of := func(value func(history.Sample) int64) [2]int64 {
			return [2]int64{median(life[:third], value), median(life[len(life)-third:], value)}
		}
		all = append(all, Growth{
			Worker: first.Worker, Process: first.Process, Lived: last.At - first.At,
			Memory:      of(func(s history.Sample) int64 { return s.Memory }),
			Descriptors: of(func(s history.Sample) int64 { return int64(s.Descriptors) }),
			Threads:     of(func(s history.Sample) int64 { return int64(s.Threads) }),
			Goroutines:  of(func(s history.Sample) int64 { return int64(s.Goroutines) }),
		})
	}
	return all
}

func median(samples []history.Sample, value func(history.Sample) int64) int64 {
	values := make([]int64, len(samples))
	for i, s := range samples {
		values[i] = value(s)
	}
	slices.Sort(values)
	return values[len(values)/2]
}
