package requirements

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
)

// The last requirement of each part.
const (
	lastA = 51
	lastB = 46
)

// IDs returns the id of every requirement: A1 to A51, B1 to B46.
func IDs() []string {
	var ids []string
	for n := 1; n <= lastA; n++ {
		ids = append(ids, "A"+strconv.Itoa(n))
	}
	for n := 1; n <= lastB; n++ {
		ids = append(ids, "B"+strconv.Itoa(n))
	}
	return ids
}

// Known says whether there is a requirement of that id.
func Known(id string) bool {
	return slices.Contains(IDs(), id)
}

// A list of references is ids and ranges of ids, beside numbers of known faults, which are no claims here.
const (
	idPattern    = `[AB][0-9]+(?:[–-][AB]?[0-9]+)?\b`
	casePattern  = `CASES?\s+[0-9]+(?:[–-][0-9]+)?(?:,\s*[0-9]+(?:[–-][0-9]+)?)*`
	listPattern  = `(?:` + idPattern + `|` + casePattern + `)(?:(?:\s*[,;&+]\s*|\s+and\s+|\s*,\s*and\s+|\s+)(?:` + idPattern + `|` + casePattern + `))*`
	rangePattern = `([AB])([0-9]+)(?:[–-]([AB]?)([0-9]+))?`
)

type reader struct{ leading, bracketed, closing, cases, one *regexp.Regexp }

func newReader() reader {
	return reader{
		leading:   regexp.MustCompile(`^\s*` + listPattern),
		bracketed: regexp.MustCompile(`\(` + listPattern + `\)`),
		closing:   regexp.MustCompile(`[.:;]\s+` + listPattern + `\.?\s*$`),
		cases:     regexp.MustCompile(casePattern),
		one:       regexp.MustCompile(rangePattern),
	}
}

// read returns the ids that a line of a comment claims: those it begins with, those in brackets, and those that stand as the
// last sentence. An id that does not exist, or a range that runs backwards, is an
// error.
func (r reader) read(line string) ([]string, error) {
	lists := r.bracketed.FindAllString(line, -1)
	lists = append(lists, r.leading.FindString(line))
	if list := r.closing.FindString(line); list != "" && lists[len(lists)-1] == "" {
		lists = append(lists, list)
	}
	var ids []string
	for _, list := range lists {
		list = r.cases.ReplaceAllString(list, "")
		for _, m := range r.one.FindAllStringSubmatch(list, -1) {
			part, end := m[1], m[4]
			if end == "" {
				end = m[2]
			}
			from, errFrom := strconv.Atoi(m[2])
			to, errTo := strconv.Atoi(end)
			if errFrom != nil || errTo != nil || to < from || m[3] != "" && m[3] != part || !Known(part+m[2]) || !Known(part+end) {
				return nil, fmt.Errorf("%q names no requirement", m[0])
			}
			for n := from; n <= to; n++ {
				ids = append(ids, part+strconv.Itoa(n))
			}
		}
	}
	return ids, nil
}
