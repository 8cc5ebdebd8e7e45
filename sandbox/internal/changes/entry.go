package changes

import (
	"fmt"
	"strings"
)

// Kind says what an entry is. The set is closed.
type Kind byte

// The kinds of an entry.
const (
	File    Kind = 'f' // a regular file, git mode 100644
	Exec    Kind = 'x' // a regular file that its owner may execute, git mode 100755
	Symlink Kind = 'l' // a symbolic link, git mode 120000
)

// GitMode returns the mode git gives this kind.
func (k Kind) GitMode() uint32 {
	switch k {
	case File:
		return 0o100644
	case Exec:
		return 0o100755
	case Symlink:
		return 0o120000
	}
	return 0
}

// MaxTarget bounds a symlink's target, in bytes.
const MaxTarget = 4096

// Bounds limit one capture. All are positive.
type Bounds struct {
	Entries   int   `json:"entries"`    // files, links and folders walked
	Bytes     int64 `json:"bytes"`      // logical size of everything that is not Same, in total
	FileBytes int64 `json:"file_bytes"` // logical size of one file
	Depth     int   `json:"depth"`      // segments of a path
	PathBytes int   `json:"path_bytes"` // bytes of a path
}

// Validate reports the first bound that is missing.
func (b Bounds) Validate() error {
	if b.Entries <= 0 || b.Bytes <= 0 || b.FileBytes <= 0 || b.Depth <= 0 || b.PathBytes <= 0 {
		return fmt.Errorf("capture bounds must all be positive: %+v", b)
	}
	return nil
}

// compare orders paths as the walk meets them: segment by segment.
func compare(a, b string) int {
	for {
		as, arest, amore := strings.Cut(a, "/")
		bs, brest, bmore := strings.Cut(b, "/")
		if c := strings.Compare(as, bs); c != 0 {
			return c
		}
		switch {
		case !amore && !bmore:
			return 0
		case !amore:
			return -1
		case !bmore:
			return 1
		}
		a, b = arest, brest
	}
}
