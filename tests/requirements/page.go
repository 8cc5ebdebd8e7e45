package requirements

import (
	"fmt"
	"slices"
	"strings"
)

// PagePath is where the page lies in the repository.
const PagePath = "docs/requirements.md"

// The last column: `tests`, then what they leave open; or that there is nothing yet, with or without a reason. Tests are
// written by the generator, notes by hand.
const (
	nothing   = "nothing yet"
	open      = "still open: "
	separator = "<br>"
)

// Row is one requirement on the page.
type Row struct {
	Line  int // from 1
	ID    string
	Text  string
	Owner string
	Tests []string
	Note  string // why there is no test yet, or what the tests leave open
}

// ParsePage returns the rows of the page in their order. Only table rows that begin with an id count; such a row with
// other than four columns, or with an empty one, is an error.
func ParsePage(page string) ([]Row, error) {
	var rows []Row
	for i, line := range strings.Split(page, "\n") {
		cells, ok := cells(line)
		if !ok {
			continue
		}
		if len(cells) != 4 || slices.Contains(cells, "") {
			return nil, fmt.Errorf("%s:%d: %s needs four columns, none empty", PagePath, i+1, cells[0])
		}
		row := Row{Line: i + 1, ID: cells[0], Text: cells[1], Owner: cells[2]}
		for _, part := range strings.Split(cells[3], separator) {
			openNote, isOpen := strings.CutPrefix(part, open)
			reason, isReason := strings.CutPrefix(part, nothing+": ")
			switch {
			case isOpen:
				row.Note = openNote
			case isReason:
				row.Note = reason
			case part != nothing:
				row.Tests = append(row.Tests, strings.Trim(part, "`"))
			}
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func cells(line string) ([]string, bool) {
	line, ok := strings.CutPrefix(strings.TrimSpace(line), "|")
	if !ok {
		return nil, false
	}
	cells := strings.Split(strings.TrimSuffix(line, "|"), "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	id := cells[0]
	return cells, len(id) > 1 && (id[0] == 'A' || id[0] == 'B') && strings.Trim(id[1:], "0123456789") == ""
}

// Rewrite returns the page with its tests written from the claims. Notes stay: a reason for which there was no test
// becomes what the first test leaves open, until someone takes it away. Everything else is kept byte for byte.
func Rewrite(page string, claims map[string][]string) (string, error) {
	rows, err := ParsePage(page)
	if err != nil {
		return "", err
	}
	lines := strings.Split(page, "\n")
	for _, row := range rows {
		if !slices.Equal(row.Tests, claims[row.ID]) {
			row.Tests = claims[row.ID]
			lines[row.Line-1] = row.String()
		}
	}
	return strings.Join(lines, "\n"), nil
}

// String is the row as a line of the page.
func (r Row) String() string {
	var parts []string
	for _, test := range r.Tests {
		parts = append(parts, "`"+test+"`")
	}
	switch {
	case len(r.Tests) == 0 && r.Note == "":
		parts = append(parts, nothing)
	case len(r.Tests) == 0:
		parts = append(parts, nothing+": "+r.Note)
	case r.Note != "":
		parts = append(parts, open+r.Note)
	}
	return fmt.Sprintf("| %s | %s | %s | %s |", r.ID, r.Text, r.Owner, strings.Join(parts, separator))
}
