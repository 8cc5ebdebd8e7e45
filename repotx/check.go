package repotx

import (
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/rein-aharness/harness/evidence"
)

// Check refuses a change that the allowance does not cover. It judges plain paths on both sides of the difference, without
// rename detection, in the order of the paths; the first violation is the failure, with the code of its rule. (A34)
func (b *Baseline) Check(cs ChangeSet, a Allowance) error {
	for _, c := range cs.Changes {
		if code, err := b.checkChange(cs, c, a); err != nil {
			return evidence.Fail(evidence.StageAccept, code, c.Path, err)
		}
	}
	_, err := b.merge(cs)
	return err
}

func (b *Baseline) checkChange(cs ChangeSet, c Change, a Allowance) (evidence.Code, error) {
	if err := checkTreePath(c.Path); err != nil {
		return evidence.CodePathInvalid, err
	}
	for _, p := range append(parents(c.Path), c.Path) {
		if b.gitlinks[p] {
			return evidence.CodeGitlinkRefused, fmt.Errorf("%q is a submodule", p)
		}
	}
	link := c.NewMode == ModeSymlink
	if foldName(c.Path) == ManifestPath {
		return evidence.CodePathProtected, errors.New("the manifest is never granted")
	}
	// A link at the root whose name begins with a dot would put its target's content in the place of a protected folder.
	if (isProtected(c.Path) || link && strings.HasPrefix(c.Path, ".")) && !a.unprotects(c.Path) {
		return evidence.CodePathProtected, errors.New("protected, and not granted by name")
	}
	if !a.Permits(c.Path) {
		return evidence.CodePathNotGranted, fmt.Errorf("outside what definition, profile and manifest allow in %s", a.Repository)
	}
	if link || c.OldMode == ModeSymlink {
		if !a.symlinks() {
			return evidence.CodeSymlinkRefused, errors.New("symbolic links are not granted")
		}
	}
	if link {
		if err := b.checkLink(cs, c); err != nil {
			return evidence.CodeSymlinkRefused, err
		}
	}
	return "", nil
}

// maxLinkBytes bounds a link's target; Linux allows no more.
const maxLinkBytes = 4095

// checkLink follows a new link inside the resulting tree. It must stay inside at every step, so links that it passes
// through count as well.
func (b *Baseline) checkLink(cs ChangeSet, c Change) error {
	links := b.resultLinks(cs)
	at := c.Path
	for hops := 0; ; hops++ {
		if hops > 8 {
			return errors.New("too many links in a row")
		}
		target, err := links(at)
		if err != nil {
			return err
		}
		next, err := resolveLink(at, target)
		if err != nil {
			return err
		}
		for _, dir := range parents(next) {
			if via, err := links(dir); err != nil || via != "" {
				return errors.Join(err, fmt.Errorf("points through another link, %q", dir))
			}
		}
		if via, err := links(next); err != nil || via == "" {
			return err
		}
		at = next
	}
}

// resolveLink gives the path that a link names, read as text.
func resolveLink(link, target string) (string, error) {
	switch {
	case target == "" || len(target) > maxLinkBytes:
		return "", errors.New("empty or over-long target")
	case strings.HasPrefix(target, "/") || strings.Contains(target, `\`):
		return "", errors.New("absolute target")
	}
	rest := target
	for strings.HasPrefix(rest, "../") {
		rest = rest[3:]
	}
	if rest != ".." && strings.Contains("/"+rest+"/", "/../") {
		return "", errors.New("target goes up after going down")
	}
	dir, _ := splitPath(link)
	next := path.Join(dir, target)
	if next == ".." || strings.HasPrefix(next, "../") {
		return "", errors.New("target is outside the repository")
	}
	if next == "." {
		return "", errors.New("target is the repository itself")
	}
	if err := checkTreePath(next); err != nil {
		return "", fmt.Errorf("target: %w", err)
	}
	return next, nil
}

// resultLinks looks up the target of a path in the tree that the change leads to: "" when it is not a link there.
func (b *Baseline) resultLinks(cs ChangeSet) func(string) (string, error) {
	changed := map[string]Change{}
	for _, c := range cs.Changes {
		changed[c.Path] = c
	}
	return func(p string) (string, error) {
		if c, ok := changed[p]; ok {
			if c.NewMode != ModeSymlink {
				return "", nil
			}
			data, err := io.ReadAll(io.LimitReader(cs.content(c), maxLinkBytes+1))
			return string(data), err
		}
		known := b.files[p]
		if known.Mode != ModeSymlink {
			return "", nil
		}
		if known.Size > maxLinkBytes {
			return "", errors.New("over-long target")
		}
		data, err := b.blob(known)
		return string(data), err
	}
}
