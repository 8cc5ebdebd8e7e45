package requirements

import (
	"fmt"
	"sort"
)

// CheckPage returns what is wrong with the page on its own and against the sources: a requirement that is missing, listed
// twice or unknown, a test that does not exist, and tests other than those that claim the requirement.
func CheckPage(page string, s Sources) ([]string, error) {
	rows, err := ParsePage(page)
	if err != nil {
		return nil, err
	}
	var faults []string
	seen := map[string]bool{}
	for _, row := range rows {
		at := fmt.Sprintf("%s:%d: %s", PagePath, row.Line, row.ID)
		if !Known(row.ID) {
			faults = append(faults, at+" is no requirement")
		}
		if seen[row.ID] {
			faults = append(faults, at+" is listed twice")
		}
		seen[row.ID] = true
		for _, test := range row.Tests {
			if !s.Tests[test] {
				faults = append(faults, fmt.Sprintf("%s names %s, which does not exist", at, test))
			}
		}
	}
	for _, id := range IDs() {
		if !seen[id] {
			faults = append(faults, fmt.Sprintf("%s: %s is missing", PagePath, id))
		}
	}
	current, err := Rewrite(page, s.Claims)
	if err != nil {
		return nil, err
	}
	if current != page {
		faults = append(faults, PagePath+" is not what the comments in the tests say: run `go run ./tests/requirements/cmd/gen`")
	}
	return faults, nil
}

// CheckResults returns what is wrong with a run of the tests: each test that the page names must have run and passed, and
// no test at all may skip.
func CheckResults(page string, results Results) ([]string, error) {
	rows, err := ParsePage(page)
	if err != nil {
		return nil, err
	}
	var faults []string
	for _, row := range rows {
		for _, test := range row.Tests {
			switch outcome, ran := results[test]; {
			case !ran:
				faults = append(faults, fmt.Sprintf("%s is shown by %s, which did not run", row.ID, test))
			case outcome != Passed:
				faults = append(faults, fmt.Sprintf("%s is shown by %s, which %s", row.ID, test, outcome))
			}
		}
	}
	var skipped []string
	for test, outcome := range results {
		if outcome == Skipped {
			skipped = append(skipped, test+" was skipped: tests never skip")
		}
	}
	sort.Strings(skipped)
	return append(faults, skipped...), nil
}

// Summary says in one line how much of the page is shown, and names what is not.
func Summary(page string) (string, error) {
	rows, err := ParsePage(page)
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
	line := fmt.Sprintf("%d of %d requirements are shown by tests", shown, len(rows))
	if partly != "" {
		line += "; in part:" + partly
	}
	if missing != "" {
		line += "; nothing yet:" + missing
	}
	return line, nil
}
