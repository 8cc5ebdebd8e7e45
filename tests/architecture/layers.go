package architecture

import (
	"fmt"
	"slices"
	"strings"
)

// layer says what the packages in and below a folder may import of this module. A folder without a row of its own belongs
// to the row of its nearest parent, and the packages of one row may import each other.
type layer struct {
	folder  string
	imports string // rows that may be imported
	tests   string // rows that its test files may import besides
	alone   bool   // the packages of this row may not even import each other
}

// layers is the order of the module: each row may import what stands before it.
func layers() []layer {
	return []layer{
		{folder: "internal", alone: true},
		{folder: "evidence", imports: "internal", tests: "tests/stack"},
		{folder: "sandbox", imports: "internal evidence", tests: "tests/stack"},
		{folder: "repotx", imports: "internal evidence", tests: "tests/stack"},
		{folder: "rein/credential", imports: "internal evidence repotx", tests: "tests/stack"},
		{folder: "rein", imports: "internal evidence repotx sandbox rein/credential", tests: "tests/stack"},
		// The profiles' tables are created by the queue's migrations, so their tests run those.
		{folder: "profiles", imports: "internal evidence repotx sandbox rein/credential rein", tests: "tests/stack queue"},
		{folder: "queue", imports: "internal evidence repotx sandbox rein/credential rein profiles", tests: "tests/stack"},
		{folder: ".", imports: "internal evidence repotx sandbox rein/credential rein profiles queue", tests: "tests/stack"},
		{folder: "docs"},
		{folder: "cmd", imports: "docs internal evidence repotx sandbox rein/credential rein profiles queue .", tests: "tests/stack"},

		// The stack and the gates look at the product from outside.
		{folder: "tests/stack", imports: "tests/images tests/demo"},
		{folder: "tests/images", imports: "tests/stack"},
		{folder: "tests/architecture"},
		{folder: "tests/requirements"},
		{folder: "tests/demo", imports: "internal evidence repotx sandbox rein/credential rein profiles queue . tests/stack tests/images"},
		{folder: "tests", imports: "internal evidence repotx sandbox rein/credential rein profiles queue . tests/stack tests/images tests/demo"},
	}
}

// row returns the row a folder belongs to. Only the root itself belongs to the root's row: a new folder at the top needs a
// row of its own.
func row(dir string) (layer, bool) {
	var found layer
	for _, l := range layers() {
		if l.folder == "." && dir != "." {
			continue
		}
		if within(dir, l.folder) && len(l.folder) > len(found.folder) {
			found = l
		}
	}
	return found, found.folder != ""
}

func checkLayers(t *Tree) []Violation {
	var bad []Violation
	for _, p := range t.Packages {
		if _, ok := row(p.Dir); !ok {
			bad = append(bad, Violation{p.Dir, "no row of the layer table has this folder"})
		}
	}
	t.files(every, func(p *Package, f *File) {
		from, ok := row(p.Dir)
		if !ok {
			return
		}
		allowed := strings.Fields(from.imports)
		if f.Test {
			allowed = append(allowed, strings.Fields(from.tests)...)
		}
		for _, imported := range f.Imports {
			dir, ok := t.ours(imported)
			if !ok || dir == p.Dir {
				continue
			}
			to, ok := row(dir)
			switch {
			case ok && to.folder == from.folder && !from.alone:
			case ok && to.folder != from.folder && slices.Contains(allowed, to.folder):
			default:
				bad = append(bad, Violation{f.Path, fmt.Sprintf("%s may not import %s", p.Dir, dir)})
			}
		}
	})
	return bad
}
