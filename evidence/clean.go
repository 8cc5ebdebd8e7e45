package evidence

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clean returns s in a form that is safe to show and to store: every character that does not show itself is escaped, and what is
// longer than limit bytes is cut with a mark that says how many bytes of the escaped form are missing. Escaped are control
// characters, terminal escapes, bidirectional and invisible characters, spaces other than U+0020, private and unassigned
// characters, bytes that are not UTF-8, and the backslash itself, so that two different strings never look the same unless they
// were cut. The result is at most limit bytes of text plus the mark.
func Clean(s string, limit int) string {
	if isClean(s) && len(s) <= limit {
		return s
	}
	var b strings.Builder
	total := 0
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		piece := s[:size]
		switch {
		case r == utf8.RuneError && size == 1:
			piece = fmt.Sprintf(`\x%02x`, s[0])
		case r == '\\':
			piece = `\\`
		case hidden(r):
			piece = escapeRune(r)
		}
		if total == b.Len() && total+len(piece) <= limit {
			b.WriteString(piece)
		}
		total += len(piece)
		s = s[size:]
	}
	if missing := total - b.Len(); missing > 0 {
		fmt.Fprintf(&b, "%s+%d]", cutMark, missing)
	}
	return b.String()
}

// cutMark begins the mark of a cut string. A string that holds the characters by itself is told apart by its length only.
const cutMark = "…["

// markLimit is the most bytes a mark can take.
const markLimit = len(cutMark) + len("+9223372036854775807]")

func isClean(s string) bool {
	for _, r := range s {
		if r == '\\' || r == utf8.RuneError || hidden(r) {
			return false
		}
	}
	return true
}

// hidden reports whether r does not show itself when printed.
func hidden(r rune) bool {
	return !unicode.IsPrint(r) ||
		unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) ||
		r == '\u2800' // a blank that counts as a symbol
}

func escapeRune(r rune) string {
	switch {
	case r == '\n':
		return `\n`
	case r == '\r':
		return `\r`
	case r == '\t':
		return `\t`
	case r <= 0xffff:
		return fmt.Sprintf(`\u%04x`, r)
	default:
		return fmt.Sprintf(`\U%08x`, r)
	}
}
