package architecture

import (
	"fmt"
	"slices"
	"sort"
	"strings"
)

// DependenciesPage is where each direct dependency has its line.
const DependenciesPage = "docs/dependencies.md"

// CheckDependencies compares the page's table with what the code imports. A module is direct when one of our files imports
// it, whatever the comments in go.mod say; a nested module's direct requirements are those of its own go.mod.
func CheckDependencies(t *Tree, page string) []Violation {
	var bad []Violation
	listed := map[string]bool{}
	for i, line := range strings.Split(page, "\n") {
		module, rest, ok := dependencyRow(line)
		if !ok {
			continue
		}
		where := fmt.Sprintf("%s:%d", DependenciesPage, i+1)
		if len(rest) != 2 || rest[0] == "" || rest[1] == "" {
			bad = append(bad, Violation{where, module + " needs a licence and a reason"})
		}
		if listed[module] {
			bad = append(bad, Violation{where, module + " is listed twice"})
		}
		listed[module] = true
		if !t.requires(module) {
			bad = append(bad, Violation{where, module + " is required by no go.mod"})
		}
	}
	for _, module := range t.direct() {
		if !listed[module] {
			bad = append(bad, Violation{DependenciesPage, module + " has no line"})
		}
	}
	return bad
}

// dependencyRow reads `| module | licence | why |`, with or without backquotes around the module.
func dependencyRow(line string) (module string, rest []string, ok bool) {
	line, ok = strings.CutPrefix(strings.TrimSpace(line), "|")
	if !ok {
		return "", nil, false
	}
	cells := strings.Split(strings.TrimSuffix(line, "|"), "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	module = strings.Trim(cells[0], "`")
	if module == "module" || strings.Trim(module, "-:") == "" {
		return "", nil, false
	}
	return module, cells[1:], true
}

func (t *Tree) requires(module string) bool {
	if slices.Contains(t.Requires, module) {
		return true
	}
	for _, direct := range t.Nested {
		if slices.Contains(direct, module) {
			return true
		}
	}
	return false
}

// direct returns the modules that our files import and those that nested modules require directly, sorted.
func (t *Tree) direct() []string {
	found := map[string]bool{}
	t.files(every, func(_ *Package, f *File) {
		for _, imported := range f.Imports {
			best := ""
			for _, module := range t.Requires {
				if within(imported, module) && len(module) > len(best) {
					best = module
				}
			}
			if best != "" {
				found[best] = true
			}
		}
	})
	for _, direct := range t.Nested {
		for _, module := range direct {
			found[module] = true
		}
	}
	sorted := make([]string, 0, len(found))
	for module := range found {
		sorted = append(sorted, module)
	}
	sort.Strings(sorted)
	return sorted
}
