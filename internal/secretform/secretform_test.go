package secretform

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const sample = "s3cr3t/+Va\"l\\u<é>=one"

// A27, A28, CASES 40
func TestEveryFormOfAValueIsFound(t *testing.T) {
	t.Parallel()
	m := NewMatcher(Forms([]byte(sample)))
	for name, text := range map[string]string{
		"raw":             "x " + sample + " y",
		"hex":             hex.EncodeToString([]byte(sample)),
		"upper hex":       strings.ToUpper(hex.EncodeToString([]byte(sample))),
		"query":           "?q=" + url.QueryEscape(sample),
		"path":            "/" + url.PathEscape(sample) + "/",
		"json":            `{"a":"` + "s3cr3t/+Va" + `\"l\\u<é>=one"}`,
		"json for html":   `{"a":"` + "s3cr3t/+Va" + `\"l\\u\u003cé\u003e=one"}`,
		"go":              strconv.Quote("a " + sample + " b"),
		"go in ascii":     strconv.QuoteToASCII("a " + sample + " b"),
		"lower escapes":   strings.ReplaceAll(url.QueryEscape(sample), "%2F", "%2f"),
		"base64":          base64.StdEncoding.EncodeToString([]byte(sample)),
		"base64 url":      base64.URLEncoding.EncodeToString([]byte(sample)),
		"basic auth":      base64.StdEncoding.EncodeToString([]byte("user:" + sample)),
		"base64 in a box": base64.StdEncoding.EncodeToString([]byte("ab" + sample + "zzz")),
		"base64 shifted":  base64.StdEncoding.EncodeToString([]byte("a" + sample + "z")),
	} {
		if name == "lower escapes" {
			text = lowerEscapes(text)
		}
		require.True(t, m.Contains([]byte(text)), name)
	}
	require.False(t, m.Contains([]byte("s3cr3t/+Value=on one s3cr3t")))
}

// CASES 40
func TestEachLineOfAMultiLineValueIsFoundAndItsPEMFrameIsNot(t *testing.T) {
	t.Parallel()
	value := "-----BEGIN PRIVATE KEY-----\nfirst-line-of-it\nsecond-line-of-it\n}\n-----END PRIVATE KEY-----\n"
	m := NewMatcher(Forms([]byte(value)))
	require.True(t, m.Contains([]byte("… second-line-of-it")))
	require.True(t, m.Contains([]byte(hex.EncodeToString([]byte("first-line-of-it")))))
	require.False(t, m.Contains([]byte("-----BEGIN PRIVATE KEY-----\nother\n}\n-----END PRIVATE KEY-----\n")))
}

func mask(m *Matcher, pieces ...string) string {
	masker := m.Masker("[x]")
	var out []byte
	for _, piece := range pieces {
		out = masker.Add(out, []byte(piece))
	}
	return string(masker.End(out))
}

func TestMaskingKeepsTheRestAndMergesOverlaps(t *testing.T) {
	t.Parallel()
	m := NewMatcher([][]byte{[]byte("abcdef"), []byte("defghi"), []byte("cde")})
	require.Equal(t, "1 [x] 2", mask(m, "1 abcdefghi 2"))
	require.Equal(t, "1 ab[x] 2", mask(m, "1 abc", "de 2"))
	require.Equal(t, "abcd abc", mask(m, "abcd ab", "c"))
	require.Equal(t, "12", mask(NewMatcher(nil), "1", "2"))
}

func TestAFormCutOffByTheEndOfTheStreamIsMasked(t *testing.T) {
	t.Parallel()
	m := NewMatcher([][]byte{[]byte("abcdefghijkl")})
	require.Equal(t, "1 [x]", mask(m, "1 abcdefgh"))
	require.Equal(t, "1 abc", mask(m, "1 abc"))
}

// The result does not depend on how the stream is cut, and never holds a form.
func TestMaskingDoesNotDependOnTheCuts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		letters := rapid.SliceOfN(rapid.SampledFrom([]byte("ab")), 1, 5)
		forms := rapid.SliceOfN(letters, 1, 4).Draw(t, "forms")
		data := rapid.SliceOfN(rapid.SampledFrom([]byte("abc")), 0, 60).Draw(t, "data")
		m := NewMatcher(forms)
		whole := mask(m, string(data))

		var pieces []string
		for rest := string(data); rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "cut")
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		require.Equal(t, whole, mask(m, pieces...))

		present := false
		for _, form := range forms {
			present = present || bytes.Contains(data, form)
			for _, clear := range strings.Split(whole, "[x]") {
				require.NotContains(t, clear, string(form))
			}
		}
		require.Equal(t, present, m.Contains(data))
		require.Equal(t, present, strings.Contains(whole, "[x]"))
	})
}

func FuzzMasker(f *testing.F) {
	f.Add([]byte("secret-value"), []byte("a secret-value b"), 3)
	f.Add([]byte("line one\nline two"), []byte("line two"), 1)
	f.Fuzz(func(t *testing.T, value, data []byte, cut int) {
		if len(value) < MinLength || len(value) > 1<<10 || bytes.Contains([]byte("[x]"), value) {
			return
		}
		m := NewMatcher(Forms(value))
		cut = min(max(cut, 0), len(data))
		out := mask(m, string(data[:cut]), string(data[cut:]))
		for _, clear := range strings.Split(out, "[x]") {
			require.NotContains(t, clear, string(value))
		}
		require.Equal(t, mask(m, string(data)), out)
	})
}
