package requirements

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
)

// The last requirement of each part, and the last case.
const (
	lastA    = 51
	lastB    = 46
	lastCase = 44
)

// ids returns the ids of one part: its prefix and the numbers from first to last.
func ids(prefix string, first, last int) []string {
	var ids []string
	for n := first; n <= last; n++ {
		ids = append(ids, prefix+strconv.Itoa(n))
	}
	return ids
}

// RequirementIDs returns the id of every requirement: A1 to A51, B1 to B46.
func RequirementIDs() []string {
	return append(ids("A", 1, lastA), ids("B", 1, lastB)...)
}

// CaseIDs returns the id of every case: 1 to 44. Comments write them after the word CASES.
func CaseIDs() []string {
	return ids("", 1, lastCase)
}

// A list of references is ids and ranges of ids. A number without a letter is a case, and only CASES begins a list of them.
const (
	idPattern    = `[AB][0-9]+(?:[–-][AB]?[0-9]+)?\b`
	casePattern  = `CASES?\s+[0-9]+(?:[–-][0-9]+)?(?:,\s*[0-9]+(?:[–-][0-9]+)?)*\b`
	listPattern  = `(?:` + idPattern + `|` + casePattern + `)(?:(?:\s*[,;&+]\s*|\s+and\s+|\s*,\s*and\s+|\s+)(?:` + idPattern + `|` + casePattern + `))*`
	rangePattern = `([AB]?)([0-9]+)(?:[–-]([AB]?)([0-9]+))?`
)

type reader struct {
	leading, bracketed, closing, one *regexp.Regexp
	known                            []string
}

func newReader() reader {
	return reader{
		leading:   regexp.MustCompile(`^\s*` + listPattern),
		bracketed: regexp.MustCompile(`\(` + listPattern + `\)`),
		closing:   regexp.MustCompile(`[.:;]\s+` + listPattern + `\.?\s*$`),
		one:       regexp.MustCompile(rangePattern),
		known:     append(RequirementIDs(), CaseIDs()...),
	}
}

// read returns the ids that a line of a comment claims: those it begins with, those in brackets, and those that stand as the
// last sentence. An id that does not exist, or a range that runs backwards, is an error.
func (r reader) read(line string) ([]string, error) {
	lists := r.bracketed.FindAllString(line, -1)
	lists = append(lists, r.leading.FindString(line))
	if list := r.closing.FindString(line); list != "" && lists[len(lists)-1] == "" {
		lists = append(lists, list)
	}
	var claimed []string
	for _, list := range lists {
		for _, m := range r.one.FindAllStringSubmatch(list, -1) {
			part, end := m[1], m[4]
			if end == "" {
				end = m[2]
			}
			from, errFrom := strconv.Atoi(m[2])
			to, errTo := strconv.Atoi(end)
			known := slices.Contains(r.known, part+m[2]) && slices.Contains(r.known, part+end)
			if errFrom != nil || errTo != nil || to < from || m[3] != "" && m[3] != part || !known {
				return nil, fmt.Errorf("%q names no requirement and no case", m[0])
			}
			claimed = append(claimed, ids(part, from, to)...)
		}
	}
	return claimed, nil
}
