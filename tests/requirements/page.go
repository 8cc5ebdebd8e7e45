package requirements

import (
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
)

// Page is one page of the repository whose rows are shown by tests.
type Page struct {
	Path    string
	Kind    string   // what a row is, in one word
	IDs     []string // of the rows there must be
	Reasons bool     // whether a row that no test shows must say why
	Text    string
}

// ReadPages reads both pages of the repository at the root of fsys.
func ReadPages(fsys fs.FS) ([]Page, error) {
	pages := []Page{
		{Path: "docs/requirements.md", Kind: "requirement", IDs: RequirementIDs()},
		{Path: "docs/cases.md", Kind: "case", IDs: CaseIDs(), Reasons: true},
	}
	for i := range pages {
		text, err := fs.ReadFile(fsys, pages[i].Path)
		if err != nil {
			return nil, err
		}
		pages[i].Text = string(text)
	}
	return pages, nil
}

// The last column: `tests`, then what they leave open; or that there is nothing yet, with or without a reason. Tests are
// written by the generator, notes by hand.
const (
	nothing   = "nothing yet"
	open      = "still open: "
	separator = "<br>"
)

// Row is one requirement or case on its page.
type Row struct {
	Line  int // from 1
	ID    string
	Text  string // the two columns that are written by hand, as they stand
	Tests []string
	Note  string // why there is no test yet, or what the tests leave open
}

// Rows returns the rows of the page in their order. Only table rows that begin with an id count; such a row with other than
// four columns, or with an empty one, is an error.
func (p Page) Rows() ([]Row, error) {
	id := regexp.MustCompile(`^[AB]?[0-9]+$`)
	var rows []Row
	for i, line := range strings.Split(p.Text, "\n") {
		cells := cells(line)
		if len(cells) == 0 || !id.MatchString(cells[0]) {
			continue
		}
		if len(cells) != 4 || slices.Contains(cells, "") {
			return nil, fmt.Errorf("%s:%d: %s needs four columns, none empty", p.Path, i+1, cells[0])
		}
		row := Row{Line: i + 1, ID: cells[0], Text: cells[1] + " | " + cells[2]}
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

func cells(line string) []string {
	line, ok := strings.CutPrefix(strings.TrimSpace(line), "|")
	if !ok {
		return nil
	}
	cells := strings.Split(strings.TrimSuffix(line, "|"), "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells
}

// Rewrite returns the page's text with its tests written from the claims. Notes stay: a reason for which there was no test
// becomes what the first test leaves open, until someone takes it away. Everything else is kept byte for byte.
func (p Page) Rewrite(claims map[string][]string) (string, error) {
	rows, err := p.Rows()
	if err != nil {
		return "", err
	}
	lines := strings.Split(p.Text, "\n")
	for _, row := range rows {
		if !slices.Equal(row.Tests, claims[row.ID]) {
			row.Tests = claims[row.ID]
			lines[row.Line-1] = row.String()
		}
	}
	return strings.Join(lines, "\n"), nil
}

// String is the row as a line of its page.
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
	return fmt.Sprintf("| %s | %s | %s |", r.ID, r.Text, strings.Join(parts, separator))
}
