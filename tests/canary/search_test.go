package canary_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// canary is a value that must not show outside of its home.
type canary struct {
	name  string
	value string
}

// form is one way in which a canary can show.
type form struct {
	name  string // the canary's, and what form it is; never the value
	bytes []byte
}

// forms are the ways in which values and their lines can show. Each form occurs once.
func forms(canaries ...canary) []form {
	var all []form
	seen := map[string]bool{}
	add := func(name, text string) {
		if !seen[text] {
			seen[text] = true
			all = append(all, form{name, []byte(text)})
		}
	}
	for _, c := range canaries {
		parts := []string{c.value, strings.TrimSpace(c.value)}
		for line := range strings.Lines(c.value) {
			if line = strings.TrimSpace(line); len(line) >= 8 && !strings.HasPrefix(line, "-----") {
				parts = append(parts, line)
			}
		}
		for _, part := range parts {
			hexed := hex.EncodeToString([]byte(part))
			add(c.name+" raw", part)
			add(c.name+" hex", hexed)
			add(c.name+" HEX", strings.ToUpper(hexed))
			add(c.name+" query", url.QueryEscape(part))
			add(c.name+" path", url.PathEscape(part))
			add(c.name+" JSON", unquoted(jsonText(part, false)))
			add(c.name+" JSON for HTML", unquoted(jsonText(part, true)))
			add(c.name+" Go", unquoted(strconv.Quote(part)))
			for shift := range 3 {
				add(c.name+" base64", inner(base64.StdEncoding, part, shift))
				add(c.name+" base64 for URLs", inner(base64.URLEncoding, part, shift))
			}
		}
	}
	return all
}

// inner is the base64 of a text after shift other bytes, without the letters at both ends that depend on what is beside it.
func inner(encoding *base64.Encoding, text string, shift int) string {
	whole := encoding.WithPadding(base64.NoPadding).EncodeToString([]byte(strings.Repeat("x", shift) + text))
	return whole[[]int{0, 2, 3}[shift] : (shift+len(text))*8/6]
}

func jsonText(text string, html bool) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(html)
	if err := encoder.Encode(text); err != nil {
		panic(err)
	}
	return strings.TrimSpace(out.String())
}

func unquoted(literal string) string { return literal[1 : len(literal)-1] }

// search looks for forms in places and notes what it finds where, without showing it.
type search struct {
	forms  []form
	looked map[string]int // bytes seen of each place
	found  []string
}

func searchFor(canaries ...canary) *search {
	return &search{forms: forms(canaries...), looked: map[string]int{}}
}

func (s *search) look(place string, data []byte) {
	s.looked[place] += len(data)
	for _, layer := range layers(data) {
		for _, f := range s.forms {
			if hit := place + ": " + f.name; bytes.Contains(layer, f.bytes) && !slices.Contains(s.found, hit) {
				s.found = append(s.found, hit)
			}
		}
	}
}

// layers are the data as they are, and with each layer of quoting taken off: what is quoted in a log is quoted once more by a table
// or by JSON.
func layers(data []byte) [][]byte {
	all := [][]byte{data}
	unquote := strings.NewReplacer(`\\`, `\`, `\"`, `"`)
	for bytes.IndexByte(data, '\\') >= 0 && len(all) < 4 {
		data = []byte(unquote.Replace(string(data)))
		all = append(all, data)
	}
	return all
}

// nothing requires that nothing was found, and that there was something to search in each of the places.
func (s *search) nothing(t testing.TB, places ...string) {
	t.Helper()
	for _, place := range places {
		require.NotZero(t, s.looked[place], "nothing was searched in: %s", place)
	}
	require.Empty(t, s.found)
}

// A27, A28: whatever writes a value, in whatever form, inside of anything else, is found.
func TestTheSearchFindsEveryForm(t *testing.T) {
	t.Parallel()
	for _, c := range planted() {
		finds := func(text string) bool {
			s := searchFor(c)
			s.look("text", []byte(text))
			return len(s.found) > 0
		}
		lines := strings.Split(strings.TrimSpace(c.value), "\n")
		text := lines[len(lines)/2] // of several lines, one from the middle is enough
		for name, shown := range map[string]string{
			"raw": "x" + text + "y", "hex": hex.EncodeToString([]byte("x" + text + "y")), "HEX": fmt.Sprintf("%X", text),
			"query": url.QueryEscape("x y" + text + "&"), "path": url.PathEscape("x y" + text + "/"),
			"JSON": jsonText("\tx"+text+"\n", false), "JSON for HTML": jsonText("<x>"+text, true), "Go": strconv.Quote("\x1b" + text),
			"base64 0": base64.StdEncoding.EncodeToString([]byte(text + "yy")), "base64 1": base64.StdEncoding.EncodeToString([]byte("x" + text)),
			"base64 2":          base64.RawURLEncoding.EncodeToString([]byte("xx" + text + "y")),
			"base64 of it all":  base64.StdEncoding.EncodeToString([]byte("x" + c.value + "y")),
			"quoted, of it all": strconv.Quote(c.value), "quoted twice": strconv.Quote(strconv.Quote(text)),
			"quoted three times": strconv.Quote(jsonText(strconv.Quote(text), false)),
		} {
			require.True(t, finds(shown), "%s as %s", c.name, name)
		}
		require.False(t, finds(text[:len(text)-1]))
	}
}
