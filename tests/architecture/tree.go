package architecture

import (
	"fmt"
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"sort"
	"strconv"
	"strings"

	"golang.org/x/mod/modfile"
)

// Tree is the source of one module: every Go file outside nested modules, testdata and hidden folders.
type Tree struct {
	Module   string // module path
	Fset     *token.FileSet
	Packages []*Package // sorted by folder
	Requires []string   // module paths that go.mod requires, direct and indirect
	// Nested holds the direct requirements of each nested module, by the folder of its go.mod.
	Nested map[string][]string
}

// Package is one folder of Go files; its external test package counts as part of it.
type Package struct {
	Dir   string // relative to the module, "." for the root
	Name  string // name of the non-test files, else of the tests
	Files []*File
}

// File is one parsed Go file.
type File struct {
	Path      string // relative to the module
	Test      bool   // name ends in _test.go
	Generated bool
	Lines     int
	Imports   []string
	Build     constraint.Expr // nil when the file has no build constraint
	AST       *ast.File
}

// Load reads the module whose go.mod is at the root of fsys. A file that does not parse is an error: what cannot be read
// cannot be vouched for.
func Load(fsys fs.FS) (*Tree, error) {
	data, err := fs.ReadFile(fsys, "go.mod")
	if err != nil {
		return nil, fmt.Errorf("read the module file: %w", err)
	}
	mod, err := modfile.Parse("go.mod", data, nil)
	if err != nil {
		return nil, fmt.Errorf("parse the module file: %w", err)
	}
	if mod.Module == nil {
		return nil, fmt.Errorf("go.mod names no module")
	}
	tree := &Tree{Module: mod.Module.Mod.Path, Fset: token.NewFileSet(), Nested: map[string][]string{}}
	for _, r := range mod.Require {
		tree.Requires = append(tree.Requires, r.Mod.Path)
	}
	packages := map[string]*Package{}
	err = fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			return tree.enter(fsys, name)
		case path.Ext(name) != ".go" || ignored(path.Base(name)):
			return nil
		}
		file, err := tree.parse(fsys, name)
		if err != nil {
			return err
		}
		dir := path.Dir(name)
		if packages[dir] == nil {
			packages[dir] = &Package{Dir: dir}
		}
		packages[dir].add(file)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, p := range packages {
		tree.Packages = append(tree.Packages, p)
	}
	sort.Slice(tree.Packages, func(i, j int) bool { return tree.Packages[i].Dir < tree.Packages[j].Dir })
	return tree, nil
}

// enter decides about a folder: fs.SkipDir for what is no part of the module.
func (t *Tree) enter(fsys fs.FS, dir string) error {
	if dir == "." {
		return nil
	}
	if base := path.Base(dir); ignored(base) || base == "testdata" || base == "vendor" || base == "node_modules" {
		return fs.SkipDir
	}
	name := path.Join(dir, "go.mod")
	data, err := fs.ReadFile(fsys, name)
	if err != nil {
		return nil // no module of its own
	}
	mod, err := modfile.Parse(name, data, nil)
	if err != nil {
		return fmt.Errorf("parse a nested module file: %w", err)
	}
	direct := []string{}
	for _, r := range mod.Require {
		if !r.Indirect {
			direct = append(direct, r.Mod.Path)
		}
	}
	t.Nested[dir] = direct
	return fs.SkipDir
}

func (t *Tree) parse(fsys fs.FS, name string) (*File, error) {
	src, err := fs.ReadFile(fsys, name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	parsed, err := parser.ParseFile(t.Fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", name, err)
	}
	file := &File{
		Path: name, Test: strings.HasSuffix(name, "_test.go"), Generated: ast.IsGenerated(parsed),
		Lines: strings.Count(string(src), "\n"), AST: parsed,
	}
	for _, spec := range parsed.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, fmt.Errorf("%s: import %s: %w", name, spec.Path.Value, err)
		}
		file.Imports = append(file.Imports, imported)
	}
	for _, group := range parsed.Comments {
		for _, line := range group.List {
			if line.Pos() < parsed.Package && constraint.IsGoBuild(line.Text) {
				if file.Build, err = constraint.Parse(line.Text); err != nil {
					return nil, fmt.Errorf("%s: build constraint: %w", name, err)
				}
			}
		}
	}
	return file, nil
}

func (p *Package) add(file *File) {
	p.Files = append(p.Files, file)
	if name := strings.TrimSuffix(file.AST.Name.Name, "_test"); p.Name == "" || !file.Test {
		p.Name = name
	}
}

// ours returns the folder of an import of this module.
func (t *Tree) ours(imported string) (dir string, ok bool) {
	if imported == t.Module {
		return ".", true
	}
	dir, ok = strings.CutPrefix(imported, t.Module+"/")
	return dir, ok
}

// Product says whether the package is shipped, and not part of the tests.
func (p *Package) Product() bool { return !within(p.Dir, "tests") }

// within says whether dir is folder or lies below it.
func within(dir, folder string) bool {
	return folder == "." || dir == folder || strings.HasPrefix(dir, folder+"/")
}

func ignored(base string) bool { return strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") }
