package evidence_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
)

// named returns the values of a type's constants by their names.
func named(t *testing.T, file, typ string) map[string]string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	require.NoError(t, err)
	values := map[string]string{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if name, ok := spec.Type.(*ast.Ident); ok && name.Name == typ {
			for i, v := range spec.Values {
				text, err := strconv.Unquote(v.(*ast.BasicLit).Value)
				require.NoError(t, err)
				values[spec.Names[i].Name] = text
			}
		}
		return true
	})
	require.NotEmpty(t, values)
	return values
}

// constant is the name of a constant of this package, as this package or another writes it.
func constant(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		if p, ok := e.X.(*ast.Ident); ok && p.Name == "evidence" {
			return e.Sel.Name
		}
	}
	return ""
}

// The product's source raises no failure, with stage and code written out, that has no row in the table; and the table has no code
// that nothing in the product raises. A43
func TestTheTableHoldsWhatTheProductRaises(t *testing.T) {
	t.Parallel()
	codes, stages := named(t, "code.go", "Code"), named(t, "stage.go", "Stage")
	used := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != ".." && (strings.HasPrefix(entry.Name(), ".") || slices.Contains([]string{"tests", "cmd", "testdata"}, entry.Name())):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go"), strings.HasSuffix(path, "_test.go"):
			return nil
		case slices.Contains([]string{"code.go", "table.go"}, filepath.Base(path)) && filepath.Dir(path) == filepath.Join("..", "evidence"):
			return nil
		}
		files := token.NewFileSet()
		parsed, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if e, ok := n.(ast.Expr); ok && codes[constant(e)] != "" {
				used[constant(e)] = true
			}
			call, ok := n.(*ast.CallExpr)
			if !ok || constant(call.Fun) != "Fail" || len(call.Args) != 4 {
				return true
			}
			stage, code := stages[constant(call.Args[0])], codes[constant(call.Args[1])]
			if stage == "" || code == "" {
				return true // decided at run time
			}
			require.True(t, slices.ContainsFunc(evidence.Table(), func(r evidence.Row) bool {
				return r.Code == evidence.Code(code) && slices.Contains(r.Stages, evidence.Stage(stage))
			}), "%s: %s at %s has no row in the table", files.Position(call.Pos()), code, stage)
			return true
		})
		return nil
	})
	require.NoError(t, err)
	for name := range codes {
		require.True(t, used[name], "nothing raises %s", name)
	}
}
