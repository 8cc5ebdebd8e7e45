package architecture

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// CheckPages reads the Markdown pages at the root of fsys and below docs. Every relative link leads to a file or folder that
// exists, every decision is in the index of decisions and has the headings that the index promises, and no line speaks of
// exactly-once but to deny it (B46).
func CheckPages(fsys fs.FS) ([]Violation, error) {
	var bad []Violation
	pages, err := markdown(fsys)
	if err != nil {
		return nil, err
	}
	claim := regexp.MustCompile(`(?i)exactly[- ]once`)
	denial := regexp.MustCompile(`(?i)\b(no|not|never|nothing|nobody|cannot)\b`)
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for name, text := range pages {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target, _, _ := strings.Cut(m[1], "#")
			if target == "" || strings.Contains(target, ":") {
				continue // a place on the same page, or elsewhere
			}
			if _, err := fs.Stat(fsys, path.Join(path.Dir(name), target)); err != nil {
				bad = append(bad, Violation{name, "links " + target + ", which does not exist"})
			}
		}
	}
	for name, text := range pages {
		for i, line := range strings.Split(text, "\n") {
			if claim.MatchString(line) && !denial.MatchString(line) {
				bad = append(bad, Violation{fmt.Sprintf("%s:%d", name, i+1), "claims exactly-once"})
			}
		}
	}
	const decisions = "docs/adr"
	for name, text := range pages {
		if path.Dir(name) != decisions || path.Base(name) == "README.md" {
			continue
		}
		if !strings.Contains(pages[decisions+"/README.md"], "]("+path.Base(name)+")") {
			bad = append(bad, Violation{name, "the index does not list it"})
		}
		for _, heading := range []string{"# " + path.Base(name)[:4] + " ", "## Context\n", "## Decision\n", "## Consequences\n"} {
			if !strings.Contains("\n"+text, "\n"+heading) {
				bad = append(bad, Violation{name, fmt.Sprintf("has no heading %q", strings.TrimSpace(heading))})
			}
		}
	}
	return bad, nil
}

// markdown returns the text of the pages by their path.
func markdown(fsys fs.FS) (map[string]string, error) {
	names, err := fs.Glob(fsys, "*.md")
	if err != nil {
		return nil, err
	}
	err = fs.WalkDir(fsys, "docs", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && path.Ext(name) == ".md" {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look for pages: %w", err)
	}
	pages := map[string]string{}
	for _, name := range names {
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		pages[name] = string(text)
	}
	return pages, nil
}
