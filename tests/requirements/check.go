package requirements

import (
	"fmt"
	"slices"
	"sort"
)

// Check returns what is wrong with the page on its own and against the sources: a row that is missing, listed twice or
// unknown, one without a test and without the reason that the page asks for, a test that does not exist, and tests other than
// those that claim the row.
func (p Page) Check(s Sources) ([]string, error) {
	rows, err := p.Rows()
	if err != nil {
		return nil, err
	}
	var faults []string
	seen := map[string]bool{}
	for _, row := range rows {
		at := fmt.Sprintf("%s:%d: %s", p.Path, row.Line, row.ID)
		if !slices.Contains(p.IDs, row.ID) {
			faults = append(faults, at+" is no "+p.Kind)
		}
		if seen[row.ID] {
			faults = append(faults, at+" is listed twice")
		}
		seen[row.ID] = true
		if p.Reasons && len(row.Tests) == 0 && row.Note == "" {
			faults = append(faults, at+" has neither a test nor a reason why")
		}
		for _, test := range row.Tests {
			if !s.Tests[test] {
				faults = append(faults, fmt.Sprintf("%s names %s, which does not exist", at, test))
			}
		}
	}
	for _, id := range p.IDs {
		if !seen[id] {
			faults = append(faults, fmt.Sprintf("%s: %s is missing", p.Path, id))
		}
	}
	current, err := p.Rewrite(s.Claims)
	if err != nil {
		return nil, err
	}
	if current != p.Text {
		faults = append(faults, p.Path+" is not what the comments in the tests say: run `go run ./tests/requirements/cmd/gen`")
	}
	return faults, nil
}

// CheckResults returns what is wrong with a run of the tests: each test that the page names must have run and passed.
func (p Page) CheckResults(results Results) ([]string, error) {
	rows, err := p.Rows()
	if err != nil {
		return nil, err
	}
	var faults []string
	for _, row := range rows {
		for _, test := range row.Tests {
			at := fmt.Sprintf("%s:%d: %s is shown by %s, which ", p.Path, row.Line, row.ID, test)
			switch outcome, ran := results[test]; {
			case !ran:
				faults = append(faults, at+"did not run")
			case outcome != Passed:
				faults = append(faults, at+string(outcome))
			}
		}
	}
	return faults, nil
}

// Skips returns a fault for each test that was skipped, named on a page or not.
func (r Results) Skips() []string {
	var skipped []string
	for test, outcome := range r {
		if outcome == Skipped {
			skipped = append(skipped, test+" was skipped: tests never skip")
		}
	}
	sort.Strings(skipped)
	return skipped
}

// Summary says in one line how much of the page is shown, and names what is not.
func (p Page) Summary() (string, error) {
	rows, err := p.Rows()
	if err != nil {
		return "", err
	}
	shown := 0
	var partly, missing string
	for _, row := range rows {
		switch {
		case len(row.Tests) == 0:
			missing += " " + row.ID
		case row.Note != "":
			partly += " " + row.ID
		default:
			shown++
		}
	}
	line := fmt.Sprintf("%d of %d %ss are shown by tests", shown, len(rows), p.Kind)
	if partly != "" {
		line += "; in part:" + partly
	}
	if missing != "" {
		line += "; nothing yet:" + missing
	}
	return line, nil
}
