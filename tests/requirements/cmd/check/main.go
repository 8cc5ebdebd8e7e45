// Command check compares docs/requirements.md and docs/cases.md with the tests and with the result that testlog kept. It prints
// every fault and ends with 1 when there is one. Run it from the root of the repository, after all tests.
//
//	go run ./tests/requirements/cmd/check -results .stack/test.json
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"golang.org/x/mod/modfile"

	"github.com/rein-aharness/harness/tests/requirements"
)

func main() {
	results := flag.String("results", "", "file with the output of `go test -json`")
	flag.Parse()
	if err := run(*results); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(path string) error {
	if path == "" {
		return errors.New("check: -results is missing")
	}
	pages, err := requirements.ReadPages(os.DirFS("."))
	if err != nil {
		return err
	}
	sources, err := requirements.Read(os.DirFS("."))
	if err != nil {
		return err
	}
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		return err
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	results, err := requirements.ReadResults(file, modfile.ModulePath(mod))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	faults := results.Skips()
	var summaries []string
	for _, page := range pages {
		onPage, err := page.Check(sources)
		if err != nil {
			return err
		}
		inRun, err := page.CheckResults(results)
		if err != nil {
			return err
		}
		summary, err := page.Summary()
		if err != nil {
			return err
		}
		faults = append(append(faults, onPage...), inRun...)
		summaries = append(summaries, summary)
	}
	if len(faults) > 0 {
		fmt.Fprintln(os.Stderr, strings.Join(faults, "\n"))
		return fmt.Errorf("%d faults between the pages and the tests", len(faults))
	}
	fmt.Println(strings.Join(summaries, "\n"))
	return nil
}
