package repotx

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// The longest path and component that a change may name, in bytes: what Linux file systems can hold.
const (
	maxPathBytes      = 4095
	maxComponentBytes = 255
	maxPathDepth      = 256
)

// checkPath says whether a path may be named at all, whatever the grant: plain components, valid UTF-8, no control or
// invisible direction character, bounded. It does not judge ".git" spellings; checkTreePath does.
func checkPath(p string) error {
	switch {
	case p == "":
		return errors.New("empty path")
	case len(p) > maxPathBytes:
		return fmt.Errorf("path is longer than %d bytes", maxPathBytes)
	case !utf8.ValidString(p):
		return errors.New("path is not UTF-8")
	case strings.Count(p, "/") >= maxPathDepth:
		return fmt.Errorf("path has more than %d components", maxPathDepth)
	}
	for _, r := range p {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Bidi_Control, r) {
			return errors.New("path holds a control character")
		}
	}
	for part := range strings.SplitSeq(p, "/") {
		switch {
		case part == "" || part == "." || part == "..":
			return fmt.Errorf("path has the component %q", part)
		case len(part) > maxComponentBytes:
			return fmt.Errorf("path has a component longer than %d bytes", maxComponentBytes)
		}
	}
	return nil
}

// checkTreePath is checkPath and refuses what some file system would read as git's own folder.
func checkTreePath(p string) error {
	if err := checkPath(p); err != nil {
		return err
	}
	for part := range strings.SplitSeq(p, "/") {
		if isDotGit(part) {
			return fmt.Errorf("path has the component %q, a spelling of .git", part)
		}
	}
	return nil
}

// isDotGit reports whether some file system takes the component for ".git": case-insensitive ones, HFS+ (which ignores
// some code points), NTFS (trailing dots and spaces, streams, the short name "git~1", and backslash as separator).
func isDotGit(name string) bool {
	name = strings.Map(func(r rune) rune {
		if hfsIgnores(r) {
			return -1
		}
		return r
	}, name)
	for part := range strings.SplitSeq(name, `\`) {
		if stream := strings.IndexByte(part, ':'); stream >= 0 {
			part = part[:stream]
		}
		part = foldName(strings.TrimRight(part, ". "))
		if part == ".git" || isShortGit(part) {
			return true
		}
	}
	return false
}

// isShortGit reports NTFS short names that could stand for ".git": git~1 and its successors.
func isShortGit(folded string) bool {
	n, ok := strings.CutPrefix(folded, "git~")
	return ok && len(n) == 1 && n[0] >= '1' && n[0] <= '9'
}

// hfsIgnores is git's own list of the code points that HFS+ leaves out when it compares names.
func hfsIgnores(r rune) bool {
	return r >= 0x200c && r <= 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x206a && r <= 0x206f || r == 0xfeff || r == 0x200b
}

// foldName maps names that some file system takes for one to one: Unicode case folding over the canonical composition.
func foldName(name string) string {
	return norm.NFC.String(cases.Fold().String(norm.NFC.String(name)))
}
