package architecture

import (
	"fmt"
	"go/token"
)

// Rule is one thing that holds everywhere.
type Rule struct {
	Name  string // the rule as one statement
	Check func(*Tree) []Violation
}

// Violation is one place where a rule does not hold.
type Violation struct {
	Where string // file, with a line where there is one
	What  string
}

func (v Violation) String() string { return v.Where + ": " + v.What }

// Rules returns every rule but the one on docs/dependencies.md, which needs that page beside the sources.
func Rules() []Rule {
	return []Rule{
		{"imports point one way", checkLayers},
		{"each library belongs to one package", checkOwners},
		{"test libraries stay in tests", checkTestLibraries},
		{"no init functions", checkInit},
		{"no global state", checkGlobals},
		{"only the sandbox starts processes", checkProcesses},
		{"the time of day is the database's", checkClocks},
		{"failpoints are not in the shipped binary", checkFailpoints},
		{"tests never skip", checkSkips},
		{"nothing is left to be done in a comment", checkUnfinished},
		{"every package says what it is", checkDoc},
		{"a package is named for its idea", checkNames},
		{"a file is one thing", checkLength},
	}
}

func (t *Tree) at(pos token.Pos) string {
	p := t.Fset.Position(pos)
	return fmt.Sprintf("%s:%d", p.Filename, p.Line)
}

// files calls visit for every file of the packages that keep keeps.
func (t *Tree) files(keep func(*Package) bool, visit func(*Package, *File)) {
	for _, p := range t.Packages {
		if !keep(p) {
			continue
		}
		for _, f := range p.Files {
			visit(p, f)
		}
	}
}

func every(*Package) bool     { return true }
func product(p *Package) bool { return p.Product() }
