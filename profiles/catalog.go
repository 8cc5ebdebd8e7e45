package profiles

import (
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/rein-aharness/harness/evidence"
)

// maxCatalog bounds the profiles of one catalog.
const maxCatalog = 1024

// Catalog reads every *.yaml file at the root of the folder as a profile and returns them by name and version. One bad file,
// a revision that is there twice or a folder without a profile refuses the whole. A catalog cannot say that a profile is
// ready: there is no field for it. (A6, A9)
func Catalog(folder fs.FS) ([]*Profile, error) {
	files, err := fs.Glob(folder, "*.yaml")
	if err != nil {
		return nil, fmt.Errorf("read the catalog: %w", err)
	}
	if len(files) == 0 || len(files) > maxCatalog {
		return nil, fmt.Errorf("read the catalog: there are %d profiles, must be 1 to %d", len(files), maxCatalog)
	}
	list := make([]*Profile, 0, len(files))
	for _, name := range files {
		p, err := readProfile(folder, name)
		if err != nil {
			return nil, fmt.Errorf("catalog file %s: %w", path.Base(name), err)
		}
		for _, other := range list {
			if other.Revision() == p.Revision() {
				return nil, fmt.Errorf("catalog file %s: %w", path.Base(name),
					evidence.Fail(evidence.StageEmit, evidence.CodeProfileImmutable, p.Revision(), nil))
			}
		}
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b *Profile) int { return strings.Compare(a.Revision(), b.Revision()) })
	return list, nil
}

func readProfile(folder fs.FS, name string) (*Profile, error) {
	file, err := folder.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	document, err := io.ReadAll(io.LimitReader(file, maxProfileBytes+1))
	if err != nil {
		return nil, err
	}
	return Parse(document)
}
