package architecture

import (
	"fmt"
	"go/ast"
	"go/build/constraint"
	"go/token"
	"regexp"
	"slices"
	"strings"
)

// checkProcesses: the worker runs no program of the host. Only the init inside a sandbox starts processes.
func checkProcesses(t *Tree) []Violation {
	var bad []Violation
	starters := map[string]bool{
		"os.StartProcess": true, "syscall.ForkExec": true, "syscall.StartProcess": true, "syscall.Exec": true, "unix.Exec": true,
	}
	t.files(product, func(p *Package, f *File) {
		if f.Test || within(p.Dir, "sandbox") {
			return
		}
		if slices.Contains(f.Imports, "os/exec") {
			bad = append(bad, Violation{f.Path, "imports os/exec"})
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if id, ok := s.X.(*ast.Ident); ok && starters[id.Name+"."+s.Sel.Name] {
					bad = append(bad, Violation{t.at(s.Pos()), "calls " + id.Name + "." + s.Sel.Name})
				}
			}
			return true
		})
	})
	return bad
}

// checkClocks: what decides whose a run is and what has expired goes by the database's clock, or counts from this machine's start. A
// worker's own time of day may be wrong. (CASES 12, 14)
func checkClocks(t *Tree) []Violation {
	var bad []Violation
	deciding := func(p *Package) bool { return p.Dir == "." || within(p.Dir, "queue") || within(p.Dir, "profiles") }
	t.files(deciding, func(_ *Package, f *File) {
		if f.Test {
			return
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				id, ok := s.X.(*ast.Ident)
				if ok && id.Name == "time" && slices.Contains([]string{"Now", "Since", "Until"}, s.Sel.Name) {
					bad = append(bad, Violation{t.at(s.Pos()), "asks this machine for the time: time." + s.Sel.Name})
				}
			}
			return true
		})
	})
	return bad
}

const failpointTag = "failpoint"

// failpoints is the package whose points the product may reach. It has text only where the build tag brings it in.
const failpoints = "internal/failpoint"

// checkFailpoints: whatever arms or names a failpoint is in a file that only the build tag brings in, so no setting of the
// shipped binary's surroundings can stop it between two steps.
func checkFailpoints(t *Tree) []Violation {
	var bad []Violation
	t.files(product, func(p *Package, f *File) {
		if f.Test || needsTag(f.Build, failpointTag) {
			return
		}
		for _, imported := range f.Imports {
			if dir, ours := t.ours(imported); ours && dir == failpoints {
				continue
			}
			if slices.Contains(strings.Split(imported, "/"), failpointTag) {
				bad = append(bad, Violation{f.Path, "imports " + imported + " without the build tag " + failpointTag})
			}
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			if _, ok := n.(*ast.ImportSpec); ok {
				return false
			}
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING &&
				(p.Dir == failpoints || strings.Contains(strings.ToLower(lit.Value), failpointTag)) {
				bad = append(bad, Violation{t.at(lit.Pos()), "names a failpoint without the build tag " + failpointTag})
			}
			return true
		})
	})
	return bad
}

// needsTag says whether a file is left out of every build without the tag, whatever the other tags are.
func needsTag(e constraint.Expr, tag string) bool {
	switch e := e.(type) {
	case *constraint.TagExpr:
		return e.Tag == tag
	case *constraint.AndExpr:
		return needsTag(e.X, tag) || needsTag(e.Y, tag)
	case *constraint.OrExpr:
		return needsTag(e.X, tag) && needsTag(e.Y, tag)
	}
	return false
}

func checkSkips(t *Tree) []Violation {
	var bad []Violation
	t.files(every, func(_ *Package, f *File) {
		ast.Inspect(f.AST, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok || s.Sel.Name != "Skip" && s.Sel.Name != "Skipf" && s.Sel.Name != "SkipNow" {
				return true
			}
			if id, ok := s.X.(*ast.Ident); ok && slices.Contains([]string{"t", "b", "f", "tb"}, id.Name) {
				bad = append(bad, Violation{t.at(s.Pos()), "a test skips; a missing part of the stack is a Fatal that says `run make up`"})
			}
			return true
		})
	})
	return bad
}

func checkUnfinished(t *Tree) []Violation {
	marker := regexp.MustCompile(`\b(` + strings.Join([]string{"TODO", "FIXME", "XXX", "HACK"}, "|") + `)\b`)
	var bad []Violation
	t.files(every, func(_ *Package, f *File) {
		for _, group := range f.AST.Comments {
			for _, c := range group.List {
				if m := marker.FindString(c.Text); m != "" {
					bad = append(bad, Violation{t.at(c.Pos()), "a comment says " + m})
				}
			}
		}
	})
	return bad
}

// checkDoc: every package of the product and every library of the tests has a doc.go with the package's comment. A command
// may carry it on any of its files, and a folder with tests alone needs none.
func checkDoc(t *Tree) []Violation {
	var bad []Violation
	for _, p := range t.Packages {
		code, documented := false, false
		for _, f := range p.Files {
			if f.Test {
				continue
			}
			code = true
			if f.AST.Doc != nil && strings.TrimSpace(f.AST.Doc.Text()) != "" && (p.Name == "main" || strings.HasSuffix("/"+f.Path, "/doc.go")) {
				documented = true
			}
		}
		switch {
		case !code || documented:
		case p.Name == "main":
			bad = append(bad, Violation{p.Dir, "the command has no package comment"})
		default:
			bad = append(bad, Violation{p.Dir, "no doc.go with a package comment"})
		}
	}
	return bad
}

// checkNames: a package that is named for what it is not about gathers everything.
func checkNames(t *Tree) []Violation {
	empty := []string{"util", "utils", "common", "helper", "helpers", "misc", "shared", "lib", "base", "core", "types", "models"}
	var bad []Violation
	for _, p := range t.Packages {
		for _, name := range append(strings.Split(p.Dir, "/"), p.Name) {
			if slices.Contains(empty, name) {
				bad = append(bad, Violation{p.Dir, fmt.Sprintf("%q says nothing about the package", name)})
				break
			}
		}
	}
	return bad
}

// maxLines is where a file is refused. Beyond 400 it should be split.
const maxLines = 500

func checkLength(t *Tree) []Violation {
	var bad []Violation
	t.files(every, func(_ *Package, f *File) {
		if f.Lines > maxLines && !f.Generated {
			bad = append(bad, Violation{f.Path, fmt.Sprintf("%d lines, at most %d", f.Lines, maxLines)})
		}
	})
	return bad
}
