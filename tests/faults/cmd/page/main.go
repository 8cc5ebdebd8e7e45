// Command page writes docs/faults.md from the results of the cells at one commit, and ends with 1 when a cell fails or was not run.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/rein-aharness/harness/tests/faults"
)

func main() {
	results := flag.String("results", "", "file with the results")
	commit := flag.String("commit", "", "commit that they are of")
	flag.Parse()
	if err := write(*results, *commit); err != nil {
		fmt.Fprintln(os.Stderr, "page:", err)
		os.Exit(1)
	}
}

func write(path, commit string) error {
	results, err := faults.Read(path, commit)
	if err != nil {
		return err
	}
	if err := os.WriteFile(faults.PagePath, []byte(faults.Page(results, commit)), 0o644); err != nil {
		return err
	}
	var bad int
	for _, c := range faults.Cells() {
		r, was := results[c.Name()]
		if c.Left() == "" && (!was || len(r.Wrong(c)) > 0) {
			bad++
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d cells fail or were not run: see %s", bad, faults.PagePath)
	}
	return nil
}
