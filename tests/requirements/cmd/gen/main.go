// Command gen writes the last column of docs/requirements.md from the comments in the tests. Run it from the root of the
// repository.
package main

import (
	"fmt"
	"os"

	"github.com/rein-aharness/harness/tests/requirements"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	sources, err := requirements.Read(os.DirFS("."))
	if err != nil {
		return err
	}
	page, err := os.ReadFile(requirements.PagePath)
	if err != nil {
		return err
	}
	current, err := requirements.Rewrite(string(page), sources.Claims)
	if err != nil {
		return err
	}
	if current != string(page) {
		if err := os.WriteFile(requirements.PagePath, []byte(current), 0o644); err != nil {
			return err
		}
	}
	summary, err := requirements.Summary(current)
	if err != nil {
		return err
	}
	fmt.Println(summary)
	return nil
}
