// Command gen writes the last column of docs/requirements.md and docs/cases.md from the comments in the tests. Run it from the
// root of the repository.
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
	pages, err := requirements.ReadPages(os.DirFS("."))
	if err != nil {
		return err
	}
	for _, page := range pages {
		current, err := page.Rewrite(sources.Claims)
		if err != nil {
			return err
		}
		if current != page.Text {
			page.Text = current
			if err := os.WriteFile(page.Path, []byte(current), 0o644); err != nil {
				return err
			}
		}
		summary, err := page.Summary()
		if err != nil {
			return err
		}
		fmt.Println(summary)
	}
	return nil
}
