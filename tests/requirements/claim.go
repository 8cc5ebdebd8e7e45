package requirements

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Sources is what the test files of a module say.
type Sources struct {
	Tests  map[string]bool     // every test there is, as `folder.TestName`
	Claims map[string][]string // requirement or case → tests that claim it, sorted
}

// Read reads the test files of the module at the root of fsys, without nested modules, testdata and hidden folders. All
// faulty claims are reported together: an id that does not exist, and a claim that is in no test.
func Read(fsys fs.FS) (Sources, error) {
	s := Sources{Tests: map[string]bool{}, Claims: map[string][]string{}}
	var faults []error
	reader := newReader()
	err := fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			return enter(fsys, name)
		case !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		src, err := fs.ReadFile(fsys, name)
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("parse %s: %w", name, err)
		}
		faults = append(faults, s.read(reader, fset, file)...)
		return nil
	})
	for _, tests := range s.Claims {
		sort.Strings(tests)
	}
	return s, errors.Join(append(faults, err)...)
}

func enter(fsys fs.FS, dir string) error {
	if dir == "." {
		return nil
	}
	base := path.Base(dir)
	_, err := fs.Stat(fsys, path.Join(dir, "go.mod"))
	if err == nil || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") || base == "testdata" || base == "vendor" || base == "node_modules" {
		return fs.SkipDir
	}
	return nil
}

func (s Sources) read(r reader, fset *token.FileSet, file *ast.File) []error {
	dir := path.Dir(fset.Position(file.Pos()).Filename)
	var tests []*ast.FuncDecl
	for _, decl := range file.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok && isTest(fn) {
			tests = append(tests, fn)
			s.Tests[Name(dir, fn.Name.Name)] = true
		}
	}
	var faults []error
	for _, group := range file.Comments {
		for _, comment := range group.List {
			text, ok := strings.CutPrefix(comment.Text, "//")
			if !ok {
				continue
			}
			ids, err := r.read(text)
			if err != nil {
				faults = append(faults, fmt.Errorf("%s: %w", fset.Position(comment.Pos()), err))
			}
			if len(ids) == 0 {
				continue
			}
			test := around(tests, comment.Pos())
			if test == nil {
				faults = append(faults, fmt.Errorf("%s: the claim on %s is in no test", fset.Position(comment.Pos()), strings.Join(ids, ", ")))
				continue
			}
			for _, id := range ids {
				s.claim(id, Name(dir, test.Name.Name))
			}
		}
	}
	return faults
}

func (s Sources) claim(id, test string) {
	for _, known := range s.Claims[id] {
		if known == test {
			return
		}
	}
	s.Claims[id] = append(s.Claims[id], test)
}

// around returns the test whose comment or body holds pos.
func around(tests []*ast.FuncDecl, pos token.Pos) *ast.FuncDecl {
	for _, fn := range tests {
		from := fn.Pos()
		if fn.Doc != nil {
			from = fn.Doc.Pos()
		}
		if from <= pos && pos <= fn.End() {
			return fn
		}
	}
	return nil
}

// isTest says whether `go test` runs a function: a test, the seeds of a fuzzer, an example. Benchmarks it does not run.
func isTest(fn *ast.FuncDecl) bool {
	if fn.Recv != nil || fn.Name.Name == "TestMain" {
		return false
	}
	for _, prefix := range []string{"Test", "Fuzz", "Example"} {
		if rest, ok := strings.CutPrefix(fn.Name.Name, prefix); ok {
			first, _ := utf8.DecodeRuneInString(rest)
			return rest == "" || !unicode.IsLower(first)
		}
	}
	return false
}

// Name is how the page names a test: the folder of its package, a dot and the function. The module's root is `harness`.
func Name(dir, test string) string {
	if dir == "." {
		dir = "harness"
	}
	return dir + "." + test
}
