package requirements

import (
	"fmt"
	"strings"
)

// PagePath is where the page lies in the repository.
const PagePath = "docs/requirements.md"

// Nothing is what the page says where no test shows a requirement; a reason may follow after a colon.
const Nothing = "nothing yet"

// Row is one requirement on the page.
type Row struct {
	Line  int // from 1
	ID    string
	Text  string
	Owner string
	Tests []string // empty when Shown is Nothing, with or without a reason
	Shown string   // the last column as it stands
}

// ParsePage returns the rows of the page in their order. Only table rows that begin with an id count; such a row with
// other than four columns is an error.
func ParsePage(page string) ([]Row, error) {
	var rows []Row
	for i, line := range strings.Split(page, "\n") {
		cells, ok := cells(line)
		if !ok {
			continue
		}
		if len(cells) != 4 {
			return nil, fmt.Errorf("%s:%d: %d columns, not 4", PagePath, i+1, len(cells))
		}
		row := Row{Line: i + 1, ID: cells[0], Text: cells[1], Owner: cells[2], Shown: cells[3]}
		if !isNothing(row.Shown) {
			for _, test := range strings.Split(row.Shown, "<br>") {
				row.Tests = append(row.Tests, strings.Trim(strings.TrimSpace(test), "`"))
			}
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func isNothing(shown string) bool {
	return shown == Nothing || strings.HasPrefix(shown, Nothing+": ")
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

// Rewrite returns the page with its last column written from the claims. A reason that stands after Nothing stays as long
// as nothing shows the requirement. Everything else is kept byte for byte.
func Rewrite(page string, claims map[string][]string) (string, error) {
	rows, err := ParsePage(page)
	if err != nil {
		return "", err
	}
	lines := strings.Split(page, "\n")
	for _, row := range rows {
		shown := Nothing
		if tests := claims[row.ID]; len(tests) > 0 {
			shown = "`" + strings.Join(tests, "`<br>`") + "`"
		} else if isNothing(row.Shown) {
			shown = row.Shown
		}
		if shown != row.Shown {
			lines[row.Line-1] = fmt.Sprintf("| %s | %s | %s | %s |", row.ID, row.Text, row.Owner, shown)
		}
	}
	return strings.Join(lines, "\n"), nil
}
