package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// hidden gives the first character that a terminal would act on or not show.
func hidden(text string) (rune, bool) {
	for _, r := range text {
		if r != '\n' && r != '\t' && !unicode.IsPrint(r) {
			return r, true
		}
	}
	return 0, false
}

// CASES 38
func TestJSONKeepsValuesAndHidesNothing(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	a := &app{streams: streams{out: &out}}
	value := map[string]string{"k": "a\x1b[2J\u009b\u202e\u200b\U000e0041\"\\<é😀\n"}
	require.NoError(t, a.printJSON(value))
	_, found := hidden(out.String())
	require.False(t, found, "%q", out.String())
	var back map[string]string
	require.NoError(t, json.Unmarshal(out.Bytes(), &back))
	require.Equal(t, value, back)
}

// CASES 41
func TestTableCellsAreSafeAndBounded(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	table := newTable(&out)
	table.row("a\x1b[31m", "b\tc", strings.Repeat("x", 2*maxCell))
	require.NoError(t, table.flush())
	require.Contains(t, out.String(), `a\u001b[31m  b\tc  xxx`)
	require.Less(t, out.Len(), 2*maxCell)
}

// FuzzScreen shows that a session log, however it is cut into pieces, cannot act on the terminal and is shown whole. CASES 41
func FuzzScreen(f *testing.F) {
	f.Add([]byte("plain\ttext\nas it is\n"), 3)
	f.Add([]byte("\x1b]0;title\x07\x1b[2J"), 1)
	f.Add([]byte("é😀\u202e\xff\xc3"), 2)
	f.Add([]byte(`C:\path\n`), 5)
	f.Fuzz(func(t *testing.T, data []byte, cut int) {
		whole, pieces := &bytes.Buffer{}, &bytes.Buffer{}
		one := &screen{w: whole}
		_, err := one.Write(data)
		require.NoError(t, err)
		require.NoError(t, one.Close())

		cut = min(max(cut, 1), max(len(data), 1))
		many := &screen{w: pieces}
		for rest := data; len(rest) > 0; {
			n := min(cut, len(rest))
			_, err := many.Write(rest[:n])
			require.NoError(t, err)
			rest = rest[n:]
		}
		require.NoError(t, many.Close())

		require.Equal(t, whole.String(), pieces.String())
		r, found := hidden(whole.String())
		require.False(t, found, "%U in %q", r, whole.String())
	})
}
