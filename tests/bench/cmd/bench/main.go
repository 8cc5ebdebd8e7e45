// Command bench runs the benchmarks on the stack that is up and prints what they say as ratios: the governed run against the
// script, the stages' shares of it, a run in the queue against a bare job, the publication against `git push`, and the time from
// emission to claim.
package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// results are the values of benchmarks: name without the number of processors → unit → value.
type results map[string]map[string]float64

func run(ctx context.Context) error {
	all := results{}
	for _, part := range []struct{ pkg, pattern, times string }{
		{"./tests/bench", "GovernedRun", "1x"},
		{"./queue", "ClaimAndClose|BareJob", "1000x"},
		{"./queue", "EnqueueToClaim", "500x"},
		{"./repotx", "Publish|GitPush", "15x"},
	} {
		if err := all.measure(ctx, part.pkg, part.pattern, part.times); err != nil {
			return err
		}
	}
	return all.print()
}

func (r results) measure(ctx context.Context, pkg, pattern, times string) error {
	fmt.Fprintf(os.Stderr, "%s: %s\n", pkg, pattern)
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "^Benchmark("+pattern+")$", "-benchtime", times, pkg)
	output, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", pkg, err, output)
	}
	return r.parse(output)
}

// parse reads the lines of a benchmark: a name, a number of times, then pairs of value and unit.
func (r results) parse(output []byte) error {
	lines := bufio.NewScanner(bytes.NewReader(output))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(fields[0], "Benchmark"), "-")
		r[name] = map[string]float64{}
		for i := 2; i+1 < len(fields); i += 2 {
			value, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return fmt.Errorf("read the result of %s: %w", name, err)
			}
			r[name][fields[i+1]] = value
		}
	}
	return lines.Err()
}

func (r results) print() error {
	for _, name := range []string{"GovernedRun", "ClaimAndClose", "BareJob", "EnqueueToClaim", "Publish", "GitPush"} {
		if r[name] == nil {
			return fmt.Errorf("%s has said nothing", name)
		}
	}
	const row = "%-42s %10.2f ms %10.2f ms   %6.2f\n"
	whole, claim, wait := r["GovernedRun"], r["EnqueueToClaim"], r["ClaimAndClose"]
	fmt.Printf("%-42s %13s %13s   %6s\n", "", "harness", "without", "ratio")
	fmt.Printf(row, "governed run, against the script (median)", whole["governed-ms"], whole["ungoverned-ms"], whole["ratio"])
	pair := func(title string, a, b map[string]float64) {
		fmt.Printf(row, title, a["ns/op"]/1e6, b["ns/op"]/1e6, a["ns/op"]/b["ns/op"])
	}
	pair("claim and close, against a bare job", wait, r["BareJob"])
	pair("10 of 20,000 files, against git push", r["Publish"], r["GitPush"])
	fmt.Printf("\nfrom emission to claim: p50 %.2f ms, p99 %.2f ms\n\nthe governed run by stages:\n", claim["p50-ms"], claim["p99-ms"])
	type share struct {
		stage   string
		percent float64
	}
	var shares []share
	for unit, percent := range whole {
		if stage, ok := strings.CutPrefix(strings.TrimSuffix(unit, "-%"), "share-"); ok {
			shares = append(shares, share{stage, percent})
		}
	}
	slices.SortFunc(shares, func(a, b share) int { return int(1000 * (b.percent - a.percent)) })
	for _, s := range shares {
		fmt.Printf("  %-12s %5.1f %%\n", s.stage, s.percent)
	}
	return nil
}
