package architecture

import (
	"fmt"
	"slices"
	"strings"
)

// owner gives the packages that may import what lies below a path. It binds the product without its tests: a test may look
// at the same Postgres, engine or remote from outside.
type owner struct {
	library string
	folders string // folders of the product, with what lies below them; none: the product may not use it at all
}

func owners() []owner {
	return []owner{
		// Postgres: the run tables are the queue's, the three tables of the catalog are the profiles'.
		{"github.com/jackc/pgx", "queue profiles"},
		{"database/sql", "queue"},
		{"github.com/riverqueue", "queue"},
		{"github.com/pressly/goose", "queue"},
		// The engine and the wire.
		{"github.com/docker", "sandbox"},
		{"github.com/moby", "sandbox"},
		{"github.com/hashicorp/yamux", "sandbox"},
		// Vault.
		{"github.com/hashicorp/vault", "rein/credential"},
		// Git. Its command is nobody's: objects are made here, and hooks and filters of a checkout never run.
		{"github.com/go-git", "repotx"},
		// Canonical forms and signatures.
		{"github.com/goccy/go-yaml", "internal/canonical"},
		{"github.com/gowebpki/jcs", "internal/canonical"},
		{"github.com/go-json-experiment", "internal/canonical evidence"},
		{"github.com/secure-systems-lab", "evidence"},
		{"github.com/in-toto", "evidence"},
		// The command line.
		{"github.com/alecthomas/kong", "cmd"},
		// What only builds and drives the test stack.
		{"github.com/google/go-containerregistry", ""},
		{"net/http/cgi", ""},
	}
}

func checkOwners(t *Tree) []Violation {
	var bad []Violation
	t.files(product, func(p *Package, f *File) {
		if f.Test {
			return
		}
		for _, imported := range f.Imports {
			for _, o := range owners() {
				if !within(imported, o.library) {
					continue
				}
				folders := strings.Fields(o.folders)
				if !slices.ContainsFunc(folders, func(folder string) bool { return within(p.Dir, folder) }) {
					bad = append(bad, Violation{f.Path, fmt.Sprintf("%s belongs to %q, not to %s", imported, o.folders, p.Dir)})
				}
			}
		}
	})
	return bad
}

func testLibraries() []string {
	return []string{"testing", "github.com/stretchr", "go.uber.org/goleak", "pgregory.net/rapid", "github.com/anishathalye/porcupine"}
}

func checkTestLibraries(t *Tree) []Violation {
	var bad []Violation
	t.files(product, func(_ *Package, f *File) {
		for _, imported := range f.Imports {
			if !f.Test && slices.ContainsFunc(testLibraries(), func(library string) bool { return within(imported, library) }) {
				bad = append(bad, Violation{f.Path, "imports " + imported + " outside a test"})
			}
		}
	})
	return bad
}
