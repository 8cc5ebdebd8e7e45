package architecture

import (
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"strings"
)

func checkInit(t *Tree) []Violation {
	var bad []Violation
	t.files(product, func(_ *Package, f *File) {
		for _, decl := range f.AST.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" && !f.Generated {
				bad = append(bad, Violation{t.at(fn.Pos()), "init function"})
			}
		}
	})
	return bad
}

// checkGlobals refuses what makes a package-level variable state: one that is written after its declaration, by its own
// package or another, one whose address is taken, and one that holds a lock, a channel or an atomic. Tables, error
// sentinels and values computed once are what remains.
func checkGlobals(t *Tree) []Violation {
	var bad []Violation
	for _, p := range t.Packages {
		if !p.Product() {
			continue
		}
		bad = append(bad, t.statefulVars(p)...)
		info := t.resolve(p)
		for _, f := range p.Files {
			ast.Inspect(f.AST, func(n ast.Node) bool {
				for _, target := range written(n) {
					if name, ok := t.global(info, target); ok {
						bad = append(bad, Violation{t.at(n.Pos()), "writes to the package-level variable " + name})
					}
				}
				return true
			})
		}
	}
	return bad
}

// written returns what a node changes, or gives away a pointer to.
func written(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			return n.Lhs
		}
	case *ast.IncDecStmt:
		return []ast.Expr{n.X}
	case *ast.RangeStmt:
		if n.Tok == token.ASSIGN {
			return []ast.Expr{n.Key, n.Value}
		}
	case *ast.UnaryExpr:
		if n.Op == token.AND {
			return []ast.Expr{n.X}
		}
	case *ast.CallExpr:
		if fn, ok := n.Fun.(*ast.Ident); ok && len(n.Args) > 0 && (fn.Name == "delete" || fn.Name == "clear" || fn.Name == "copy") {
			return n.Args[:1]
		}
	}
	return nil
}

// global returns the name of the package-level variable that an expression leads to, of this or of another package. What
// is behind a package's name is known only as that name: a variable of a package elsewhere is written as `p.V = …`. A
// test's own variables are its own affair.
func (t *Tree) global(info *types.Info, e ast.Expr) (string, bool) {
	for {
		switch x := e.(type) {
		case *ast.ParenExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.SliceExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.SelectorExpr:
			if id, ok := x.X.(*ast.Ident); ok {
				if _, ok := info.Uses[id].(*types.PkgName); ok {
					return id.Name + "." + x.Sel.Name, true
				}
			}
			e = x.X
		case *ast.Ident:
			v, ok := info.Uses[x].(*types.Var)
			if !ok || v.Pkg() == nil || v.Parent() != v.Pkg().Scope() {
				return "", false
			}
			return x.Name, !strings.HasSuffix(t.Fset.Position(v.Pos()).Filename, "_test.go")
		default:
			return "", false
		}
	}
}

// resolve binds the names of a package to their declarations. Imports stay unresolved, so type errors are expected and
// only mean that less is known about other packages.
func (t *Tree) resolve(p *Package) *types.Info {
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: noImports{}, Error: func(error) {}, FakeImportC: true}
	byName := map[string][]*ast.File{}
	for _, f := range p.Files {
		if name := f.AST.Name.Name; f.Test && strings.HasSuffix(name, "_test") {
			byName[name] = append(byName[name], f.AST)
		} else {
			byName[p.Name] = append(byName[p.Name], f.AST)
		}
	}
	for name, files := range byName {
		_, _ = config.Check(name, t.Fset, files, info) // its errors went to config.Error
	}
	return info
}

type noImports struct{}

func (noImports) Import(string) (*types.Package, error) {
	return nil, errors.New("imports are not followed")
}

// statefulVars finds package-level variables whose declaration already says that they hold state.
func (t *Tree) statefulVars(p *Package) []Violation {
	var bad []Violation
	for _, f := range p.Files {
		if f.Test || f.Generated {
			continue
		}
		for _, decl := range f.AST.Decls {
			vars, ok := decl.(*ast.GenDecl)
			if !ok || vars.Tok != token.VAR {
				continue
			}
			for _, spec := range vars.Specs {
				for _, e := range append(spec.(*ast.ValueSpec).Values, spec.(*ast.ValueSpec).Type) {
					if what := stateful(e); what != "" {
						bad = append(bad, Violation{t.at(spec.Pos()), "package-level " + what})
					}
				}
			}
		}
	}
	return bad
}

func stateful(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.ChanType:
		return "channel"
	case *ast.StarExpr:
		return stateful(e.X)
	case *ast.UnaryExpr:
		return stateful(e.X)
	case *ast.CompositeLit:
		return stateful(e.Type)
	case *ast.IndexExpr: // a generic type such as atomic.Pointer[T]
		return stateful(e.X)
	case *ast.CallExpr:
		if fn, ok := e.Fun.(*ast.Ident); ok && (fn.Name == "make" || fn.Name == "new") && len(e.Args) > 0 {
			if what := stateful(e.Args[0]); what != "" {
				return what
			}
			return fn.Name + "(…)"
		}
	case *ast.SelectorExpr:
		// A pool holds nothing that anybody relies on.
		if id, ok := e.X.(*ast.Ident); ok && (id.Name == "sync" || id.Name == "atomic") && e.Sel.Name != "Pool" {
			return fmt.Sprintf("%s.%s", id.Name, e.Sel.Name)
		}
	}
	return ""
}
