// Command check compares docs/requirements.md with the tests and with the result that testlog kept. It prints every fault
// and ends with 1 when there is one. Run it from the root of the repository, after all tests.
//
//	go run ./tests/requirements/cmd/check -results .stack/test.json
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

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
	page, err := os.ReadFile(requirements.PagePath)
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
	onPage, err := requirements.CheckPage(string(page), sources)
	if err != nil {
		return err
	}
	inRun, err := requirements.CheckResults(string(page), results)
	if err != nil {
		return err
	}
	if faults := append(onPage, inRun...); len(faults) > 0 {
		for _, fault := range faults {
			fmt.Fprintln(os.Stderr, fault)
		}
		return fmt.Errorf("%d faults between the requirements and the tests", len(faults))
	}
	summary, err := requirements.Summary(string(page))
	if err != nil {
		return err
	}
	fmt.Println(summary)
	return nil
}
