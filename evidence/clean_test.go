package evidence_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rein-aharness/harness/evidence"
)

// CASES 38, 41. A28
func TestCleanShowsWhatHides(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain text":                   "plain text",
		"naïve 文 😀":                    "naïve 文 😀",
		"a\nb\r\tc":                    `a\nb\r\tc`,
		"\x1b[31mred\x1b]0;title\a":    `\u001b[31mred\u001b]0;title\u0007`,
		"\u009b31m":                    `\u009b31m`, // the one-byte form of the escape
		"user\u202etxt.exe":            `user\u202etxt.exe`,
		"\u2066a\u2069\u200f\u061c":    `\u2066a\u2069\u200f\u061c`,
		"pay\u200bpal\u200d\u2060":     `pay\u200bpal\u200d\u2060`,
		"soft\u00adhyphen":             `soft\u00adhyphen`,
		"\ufeffbom":                    `\ufeffbom`,
		"tag\U000e0041":                `tag\U000e0041`,
		"vs\ufe0f\U000e0100":           `vs\ufe0f\U000e0100`,
		"fill\u3164\u115f\uffa0\u2800": `fill\u3164\u115f\uffa0\u2800`,
		"nbsp\u00a0\u3000\u2028":       `nbsp\u00a0\u3000\u2028`,
		"private\ue000\U0010fffd":      `private\ue000\U0010fffd`,
		"bad\xff\xc0\xaf":              `bad\xff\xc0\xaf`,
		"half\xed\xa0\x80":             `half\xed\xa0\x80`,
		"\ufffd":                       "\ufffd",
		`back\slash`:                   `back\\slash`,
		"\x00":                         `\u0000`,
		"":                             "",
	} {
		require.Equal(t, want, evidence.Clean(in, 1000), "%q", in)
	}
}

func TestCleanSaysHowMuchItCut(t *testing.T) {
	t.Parallel()
	require.Equal(t, "aaaa…[+6]", evidence.Clean(strings.Repeat("a", 10), 4))
	require.Equal(t, "aaaa", evidence.Clean("aaaa", 4))
	require.Equal(t, `a\n…[+2]`, evidence.Clean("a\n\n", 4), "an escape is never cut in half")
	require.Equal(t, "é…[+2]", evidence.Clean("éé", 3))
	require.Equal(t, "…[+3]", evidence.Clean("abc", 0))
}

// CASES 38
func TestCleanedStringsAreSafeBoundedAndDistinct(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) + rapid.String().Draw(t, "text")
		b := rapid.OneOf(rapid.Just(a), rapid.String(), rapid.Map(rapid.Just(a), func(s string) string { return evidence.Clean(s, 1<<20) })).Draw(t, "other")
		limit := rapid.IntRange(0, 64).Draw(t, "limit")
		cleaned := evidence.Clean(a, limit)
		require.True(t, utf8.ValidString(cleaned))
		require.LessOrEqual(t, len(cleaned), limit+32)
		for _, r := range cleaned {
			require.True(t, unicode.IsPrint(r))
		}
		if a != b {
			require.NotEqual(t, evidence.Clean(a, 1<<20), evidence.Clean(b, 1<<20))
		}
	})
}
