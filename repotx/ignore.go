package repotx

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/rein-aharness/harness/evidence"
)

// ignoreRules are the .gitignore files of the baseline, never those that a session wrote: what a session adds to them
// must not hide the rest of its change.
type ignoreRules struct {
	byDir map[string][]ignoreRule

	mu   sync.Mutex
	dirs map[string]bool // verdicts on folders, which are asked for once per file below them
}

// ignoreRule is one line. A pattern that git calls invalid matches nothing and is left out.
type ignoreRule struct {
	match    *regexp.Regexp // over the base name or over the path from the file's folder, one byte a rune
	anchored bool           // over the path
	dirOnly  bool
	negated  bool
}

// maxIgnoreBytes bounds all .gitignore files of a baseline together.
const maxIgnoreBytes = 1 << 20

func (b *Baseline) loadIgnore() (*ignoreRules, error) {
	rules := &ignoreRules{byDir: map[string][]ignoreRule{}, dirs: map[string]bool{}}
	total := int64(0)
	for _, path := range b.paths {
		dir, name := splitPath(path)
		known := b.files[path]
		if name != ".gitignore" || known.Mode == ModeSymlink {
			continue
		}
		if total += known.Size; total > maxIgnoreBytes {
			return nil, evidence.Fail(evidence.StagePreflight, evidence.CodeBytesExceeded, ".gitignore",
				fmt.Errorf("the baseline's .gitignore files are longer than %d bytes", maxIgnoreBytes))
		}
		data, err := b.blob(known)
		if err != nil {
			return nil, err
		}
		parsed, err := parseIgnore(data)
		if err != nil {
			return nil, fmt.Errorf("reading %q: %w", path, err)
		}
		rules.byDir[dir] = parsed
	}
	return rules, nil
}

func parseIgnore(data []byte) ([]ignoreRule, error) {
	var rules []ignoreRule
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	for line := range strings.SplitSeq(string(data), "\n") {
		line = trimSpaces(strings.TrimSuffix(line, "\r"))
		if line == "" || line[0] == '#' {
			continue
		}
		var r ignoreRule
		if line[0] == '!' {
			r.negated = true
			line = line[1:]
		}
		if strings.HasSuffix(line, "/") {
			r.dirOnly = true
			line = line[:len(line)-1]
		}
		r.anchored = strings.Contains(line, "/")
		expr, ok := globExpression(strings.TrimPrefix(line, "/"))
		if !ok {
			continue
		}
		var err error
		if r.match, err = regexp.Compile(expr); err != nil {
			return nil, errors.New("a pattern is too large")
		}
		rules = append(rules, r)
	}
	return rules, nil
}

// trimSpaces cuts trailing spaces that no backslash protects.
func trimSpaces(line string) string {
	end := 0
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case ' ':
			continue
		case '\\':
			i++
		}
		end = min(i+1, len(line))
	}
	return line[:end]
}

// match gives git's verdict on a file: the last rule that matches wins, the deeper file before the higher one, and nothing
// below an ignored folder can be taken back.
func (r *ignoreRules) match(path string) bool {
	if len(r.byDir) == 0 {
		return false
	}
	dir, _ := splitPath(path)
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ignoredDir(dir) || r.verdict(path, false)
}

func (r *ignoreRules) ignoredDir(dir string) bool {
	if dir == "" {
		return false
	}
	if v, ok := r.dirs[dir]; ok {
		return v
	}
	parent, _ := splitPath(dir)
	v := r.ignoredDir(parent) || r.verdict(dir, true)
	r.dirs[dir] = v
	return v
}

func (r *ignoreRules) verdict(path string, isDir bool) bool {
	from, name := splitPath(path)
	base := bytesAsRunes(name)
	for {
		rules := r.byDir[from]
		rest := path
		if from != "" {
			rest = path[len(from)+1:]
		}
		for i := len(rules) - 1; i >= 0; i-- {
			rule := rules[i]
			subject := base
			if rule.anchored {
				subject = bytesAsRunes(rest)
			}
			if (isDir || !rule.dirOnly) && rule.match.MatchString(subject) {
				return !rule.negated
			}
		}
		if from == "" {
			return false
		}
		from, _ = splitPath(from)
	}
}

// splitPath cuts at the last slash.
func splitPath(path string) (dir, name string) {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i], path[i+1:]
	}
	return "", path
}

// bytesAsRunes makes every byte a rune of its own, because git's patterns are over bytes.
func bytesAsRunes(s string) string {
	for i := range len(s) {
		if s[i] >= 0x80 {
			var b strings.Builder
			for i := range len(s) {
				b.WriteRune(rune(s[i]))
			}
			return b.String()
		}
	}
	return s
}

// globExpression translates a pattern with git's wildmatch rules. Regular expressions here take linear time, so a session
// cannot choose a path that makes a pattern slow. ok is false for a pattern that matches nothing.
func globExpression(p string) (expr string, ok bool) {
	if p == "" {
		return "", false
	}
	var b strings.Builder
	b.WriteString(`(?s)\A`)
	for i := 0; i < len(p); {
		switch c := p[i]; c {
		case '\\':
			if i+1 == len(p) {
				return "", false
			}
			writeByte(&b, p[i+1])
			i += 2
		case '?':
			b.WriteString(`[^/]`)
			i++
		case '*':
			end := i
			for end < len(p) && p[end] == '*' {
				end++
			}
			opens := i == 0 || p[i-1] == '/'
			switch {
			case end-i < 2 || !opens || end < len(p) && p[end] != '/' && !strings.HasPrefix(p[end:], `\/`):
				b.WriteString(`[^/]*`)
			case end < len(p) && p[end] == '/':
				b.WriteString(`(?:.*/)?`)
				end++
			default:
				b.WriteString(`.*`)
			}
			i = end
		case '[':
			set, next, ok := parseClass(p, i+1)
			if !ok {
				return "", false
			}
			writeSet(&b, set)
			i = next
		default:
			writeByte(&b, c)
			i++
		}
	}
	b.WriteString(`\z`)
	return b.String(), true
}

func writeByte(b *strings.Builder, c byte) { fmt.Fprintf(b, `\x{%02x}`, c) }

func writeSet(b *strings.Builder, set *[256]bool) {
	set['/'] = false // a class never matches the separator
	var ranges strings.Builder
	for lo := 0; lo < 256; lo++ {
		if !set[lo] {
			continue
		}
		hi := lo
		for hi < 255 && set[hi+1] {
			hi++
		}
		fmt.Fprintf(&ranges, `\x{%02x}-\x{%02x}`, lo, hi)
		lo = hi
	}
	if ranges.Len() == 0 {
		b.WriteString(`[^\x{00}-\x{10ffff}]`)
		return
	}
	b.WriteString("[" + ranges.String() + "]")
}

var namedClasses = map[string]func(byte) bool{
	"alnum":  func(c byte) bool { return isAlpha(c) || isDigit(c) },
	"alpha":  isAlpha,
	"blank":  func(c byte) bool { return c == ' ' || c == '\t' },
	"cntrl":  func(c byte) bool { return c < 0x20 || c == 0x7f },
	"digit":  isDigit,
	"graph":  func(c byte) bool { return c > 0x20 && c < 0x7f },
	"lower":  func(c byte) bool { return c >= 'a' && c <= 'z' },
	"print":  func(c byte) bool { return c >= 0x20 && c < 0x7f },
	"punct":  func(c byte) bool { return c > 0x20 && c < 0x7f && !isAlpha(c) && !isDigit(c) },
	"space":  func(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' },
	"upper":  func(c byte) bool { return c >= 'A' && c <= 'Z' },
	"xdigit": func(c byte) bool { return isDigit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' },
}

func isAlpha(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// parseClass reads a bracket expression from after its '['. ok is false when it is not closed or names an unknown class.
func parseClass(p string, i int) (set *[256]bool, next int, ok bool) {
	set = new([256]bool)
	negated := false
	if i < len(p) && (p[i] == '!' || p[i] == '^') {
		negated = true
		i++
	}
	prev := -1
	for first := true; ; first = false {
		if i >= len(p) {
			return nil, 0, false
		}
		c := p[i]
		switch {
		case c == ']' && !first:
			if negated {
				for j := range set {
					set[j] = !set[j]
				}
			}
			return set, i + 1, true
		case c == '\\':
			if i++; i >= len(p) {
				return nil, 0, false
			}
			set[p[i]] = true
			prev = int(p[i])
			i++
		case c == '-' && prev >= 0 && i+1 < len(p) && p[i+1] != ']':
			i++
			if p[i] == '\\' {
				if i++; i >= len(p) {
					return nil, 0, false
				}
			}
			for j := prev; j <= int(p[i]); j++ {
				set[j] = true
			}
			prev = -1
			i++
		case strings.HasPrefix(p[i:], "[:"):
			end := strings.IndexByte(p[i+2:], ']')
			if end < 0 {
				return nil, 0, false
			}
			name := p[i+2 : i+2+end]
			if !strings.HasSuffix(name, ":") { // not a class after all: the bracket is a member
				set['['] = true
				prev = '['
				i++
				continue
			}
			in, known := namedClasses[strings.TrimSuffix(name, ":")]
			if !known {
				return nil, 0, false
			}
			for j := range set {
				set[j] = set[j] || in(byte(j))
			}
			prev = -1
			i += 2 + end + 1
		default:
			set[c] = true
			prev = int(c)
			i++
		}
	}
}
