package robustness_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/tests/robustness/history"
	"github.com/rein-aharness/harness/tests/robustness/validate"
)

// kill is a worker's end the hard way while it held a run.
type kill struct {
	held
	at time.Time
}

// report is what a person reads.
type report struct {
	Seed         uint64               `json:"seed"`
	Lasted       string               `json:"lasted"`
	Runs         int                  `json:"runs"`
	Operations   int                  `json:"operations"`   // on leases, as the workers called them
	Transactions int                  `json:"transactions"` // of refs, as the git server did them
	Changes      int                  `json:"changes"`      // of runs' rows, as the database made them
	Effects      map[string]int       `json:"effects"`
	Dispositions map[string]int       `json:"dispositions"`
	Codes        map[string]int       `json:"codes"`
	Faults       map[string]int       `json:"faults"`
	Unanswered   map[string]int       `json:"unanswered"` // emissions, by code
	Gone         recovery             `json:"gone"`       // from the kill of a worker until the engine has lost its container
	Settled      recovery             `json:"settled"`    // until its run is final
	Revoked      recovery             `json:"revoked"`    // from the call that cancels a run until the engine has lost its container
	Growths      []validate.Growth    `json:"growths"`
	Violations   []validate.Violation `json:"violations"`
}

// recovery is how long something took after a kill or a cancel, in TTLs.
type recovery struct {
	Count    int     `json:"count"`
	P50, P99 float64 // relative to the TTL
}

func recoveryOf(took []time.Duration) recovery {
	if len(took) == 0 {
		return recovery{}
	}
	slices.Sort(took)
	at := func(p float64) float64 {
		return float64(took[min(int(p*float64(len(took))), len(took)-1)]) / float64(ttl)
	}
	return recovery{Count: len(took), P50: at(0.5), P99: at(0.99)}
}

func (s *soak) report(record history.Record, violations []validate.Violation) report {
	r := report{
		Seed: s.seed, Lasted: time.Since(s.began).Round(time.Second).String(), Runs: len(record.Runs), Operations: len(record.Leases),
		Transactions: len(record.Transactions), Changes: len(record.Changes), Effects: map[string]int{}, Dispositions: map[string]int{},
		Codes: map[string]int{}, Faults: s.faults, Unanswered: s.refusals, Growths: validate.Growths(record.Samples), Violations: violations,
	}
	for _, run := range record.Runs {
		r.Effects[run.Effect]++
		r.Dispositions[run.Disposition]++
		if run.Code != "" {
			r.Codes[run.Stage+" "+run.Code]++
		}
	}
	final := map[string]time.Time{}
	for _, c := range record.Changes {
		if c.Final {
			final[c.Run] = c.At
		}
	}
	var gone, settled, revoked []time.Duration
	for _, k := range s.kills {
		if at, found := s.gone[k.held]; found && at.After(k.at) {
			gone = append(gone, at.Sub(k.at))
		}
		if at, found := final[k.run]; found && at.After(k.at) {
			settled = append(settled, at.Sub(k.at))
		}
	}
	for _, c := range s.revoked {
		var last time.Time
		for of, at := range s.gone {
			if of.run == c.run && at.After(c.at) && at.After(last) {
				last = at
			}
		}
		if !last.IsZero() {
			revoked = append(revoked, last.Sub(c.at))
		}
	}
	r.Gone, r.Settled, r.Revoked = recoveryOf(gone), recoveryOf(settled), recoveryOf(revoked)
	return r
}

func (r report) String() string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "seed\t%d\n", r.Seed)
	fmt.Fprintf(w, "lasted\t%s\n", r.Lasted)
	fmt.Fprintf(w, "runs\t%d\n", r.Runs)
	fmt.Fprintf(w, "checked\t%d operations on leases, %d transactions of refs, %d changes of rows\n", r.Operations, r.Transactions, r.Changes)
	for _, counts := range []struct {
		name string
		of   map[string]int
	}{
		{"effects", r.Effects}, {"dispositions", r.Dispositions}, {"codes", r.Codes}, {"faults", r.Faults}, {"emissions not answered", r.Unanswered},
	} {
		name := counts.name
		for _, key := range slices.Sorted(maps.Keys(counts.of)) {
			fmt.Fprintf(w, "%s\t%d %s\n", name, counts.of[key], key)
			name = ""
		}
	}
	for _, to := range []struct {
		name string
		recovery
	}{{"kill to container gone", r.Gone}, {"kill to settled", r.Settled}, {"cancel to container gone", r.Revoked}} {
		fmt.Fprintf(w, "%s\tp50 %.2f, p99 %.2f of the TTL of %s, over %d\n", to.name, to.P50, to.P99, ttl, to.Count)
	}
	for _, g := range r.Growths {
		fmt.Fprintf(w, "%s\tlived %s; memory %d to %d MiB, descriptors %d to %d, threads %d to %d, goroutines %d to %d\n", g.Worker, g.Lived.Round(time.Second),
			g.Memory[0]>>20, g.Memory[1]>>20, g.Descriptors[0], g.Descriptors[1], g.Threads[0], g.Threads[1],
			g.Goroutines[0], g.Goroutines[1])
	}
	fmt.Fprintf(w, "violations\t%d\n", len(r.Violations))
	for _, v := range r.Violations {
		fmt.Fprintf(w, "\t%s\n", v)
	}
	_ = w.Flush() // into memory
	return text.String()
}

// keep writes record and report beside the workers' logs, when something was found or a folder was asked for, and removes everything
// otherwise.
func (s *soak) keep(record history.Record, r report) {
	if os.Getenv(folderVariable) == "" && len(r.Violations) == 0 && s.trouble() == nil {
		require.NoError(s.t, os.RemoveAll(s.folder))
		return
	}
	for name, content := range map[string]any{"record.json": record, "report.json": r} {
		data, err := json.MarshalIndent(content, "", "  ")
		require.NoError(s.t, err)
		require.NoError(s.t, os.WriteFile(filepath.Join(s.folder, name), data, 0o644))
	}
	require.NoError(s.t, os.WriteFile(filepath.Join(s.folder, "report.txt"), []byte(r.String()), 0o644))
}
