package canonical_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/internal/canonical"
)

type document struct {
	Number int64             `json:"number,omitzero"`
	List   []string          `json:"list,omitempty"`
	Flag   bool              `json:"flag,omitzero"`
	Map    map[string]string `json:"map,omitempty"`
	Nested *document         `json:"nested,omitempty"`
}

// CASES 43. B19
func TestJSONThatCouldMeanTwoThingsIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		rule error
		at   string
	}{
		{`{"number":1,"number":2}`, canonical.ErrDuplicate, "/number"},
		{`{"number":1,"\u006eumber":2}`, canonical.ErrDuplicate, "/number"},
		{`{"nested":{"map":{"a":"b","a":"c"}}}`, canonical.ErrDuplicate, "/nested/map/a"},
		{`{"Number":1}`, canonical.ErrUnknownField, "/Number"},
		{`{"nested":{"other":1}}`, canonical.ErrUnknownField, "/nested/other"},
		{`{"list":["\ud800"]}`, canonical.ErrUnicode, "/list/0"},
		{`{"list":["\udc00\ud800"]}`, canonical.ErrUnicode, "/list/0"},
		{`{"map":{"\ud800":"a"}}`, canonical.ErrUnicode, ""},
		{"{\"list\":[\"\xff\"]}", canonical.ErrUnicode, "/list/0"},
		{"{\"list\":[\"\xed\xa0\x80\"]}", canonical.ErrUnicode, "/list/0"},
		{"{\"list\":[\"\xc0\xaf\"]}", canonical.ErrUnicode, "/list/0"},
		{`{"number":1.0}`, canonical.ErrNumber, "/number"},
		{`{"number":1e2}`, canonical.ErrNumber, "/number"},
		{`{"number":-0}`, canonical.ErrNumber, "/number"},
		{`{"number":9007199254740992}`, canonical.ErrNumber, "/number"},
		{`{"number":-9007199254740992}`, canonical.ErrNumber, "/number"},
		{`{"number":123456789012345678901234567890}`, canonical.ErrNumber, "/number"},
		{`{"number":01}`, canonical.ErrSyntax, ""},
		{`{"number":null}`, canonical.ErrNull, "/number"},
		{`null`, canonical.ErrNull, ""},
		{`{"number":"1"}`, canonical.ErrType, "/number"},
		{`{"number":true}`, canonical.ErrType, "/number"},
		{`{"flag":1}`, canonical.ErrType, "/flag"},
		{`{"list":"a"}`, canonical.ErrType, "/list"},
		{`[]`, canonical.ErrType, ""},
		{`{"number":1}{}`, canonical.ErrTrailing, ""},
		{`{"number":1} x`, canonical.ErrTrailing, ""},
		{`{"number":1}` + "\x00", canonical.ErrTrailing, ""},
		{"\ufeff{}", canonical.ErrSyntax, ""},
		{`{"list":["a",]}`, canonical.ErrSyntax, ""},
		{`{"list":['a']}`, canonical.ErrSyntax, ""},
		{"{\"list\":[\"a\nb\"]}", canonical.ErrSyntax, ""},
		{`{/**/}`, canonical.ErrSyntax, ""},
		{`{`, canonical.ErrSyntax, ""},
		{``, canonical.ErrSyntax, ""},
	} {
		t.Run(c.text, func(t *testing.T) {
			t.Parallel()
			var d document
			err := canonical.DecodeJSON([]byte(c.text), &d, canonical.Bounds{})
			require.ErrorIs(t, err, c.rule)
			if c.at != "" {
				var e *canonical.Error
				require.ErrorAs(t, err, &e)
				require.Equal(t, c.at, e.Pointer)
			}
		})
	}
}

func TestPlainJSONIsRead(t *testing.T) {
	t.Parallel()
	var d document
	err := canonical.DecodeJSON([]byte(" {\"number\": -9007199254740991, \"list\": [\"\\ud83d\\ude00\"], \"flag\": true, \"nested\": {}}\n"), &d, canonical.Bounds{})
	require.NoError(t, err)
	require.Equal(t, document{Number: -canonical.MaxSafeInteger, List: []string{"😀"}, Flag: true, Nested: &document{}}, d)
}

// B19
func TestBoundsHold(t *testing.T) {
	t.Parallel()
	b := canonical.Bounds{MaxBytes: 200, MaxDepth: 3, MaxValues: 12, MaxString: 10}
	deep := func(n int) string { return strings.Repeat(`{"nested":`, n) + "{}" + strings.Repeat("}", n) }
	for _, c := range []struct {
		text string
		rule error
	}{
		{`{"number":1}` + strings.Repeat(" ", 188), nil},
		{`{"number":1}` + strings.Repeat(" ", 189), canonical.ErrTooLarge},
		{deep(2), nil},
		{deep(3), canonical.ErrTooDeep},
		{`{"list":["` + strings.Repeat("a", 10) + `"]}`, nil},
		{`{"list":["` + strings.Repeat("a", 11) + `"]}`, canonical.ErrStringTooLong},
		{`{"` + strings.Repeat("a", 11) + `":1}`, canonical.ErrStringTooLong},
		{`{"list":["a"` + strings.Repeat(`,"a"`, 8) + `]}`, nil},
		{`{"list":["a"` + strings.Repeat(`,"a"`, 9) + `]}`, canonical.ErrTooManyValues},
	} {
		var d document
		for name, decode := range map[string]func([]byte, any, canonical.Bounds) error{
			"json": canonical.DecodeJSON, "yaml": canonical.DecodeYAML, // JSON is YAML
		} {
			err := decode([]byte(c.text), &d, b)
			if c.rule == nil {
				require.NoError(t, err, "%s %s", name, c.text)
			} else {
				require.ErrorIs(t, err, c.rule, "%s %s", name, c.text)
			}
		}
	}
	var d document
	require.ErrorIs(t, canonical.DecodeJSON([]byte(strings.Repeat("[", 1<<20)), &d, canonical.Bounds{}), canonical.ErrTooDeep)
	require.ErrorIs(t, canonical.DecodeJSON(make([]byte, 1<<20+1), &d, canonical.Bounds{}), canonical.ErrTooLarge)
}

func TestPlainYAMLIsRead(t *testing.T) {
	t.Parallel()
	want := document{
		Number: 7, List: []string{"a b", "yes", "2001-01-01", "block\n", "1.5"}, Flag: true, Map: map[string]string{"k": "v", "on": "x"},
		Nested: &document{Number: -3},
	}
	for _, text := range []string{
		"# comment\nnumber: 7\nlist:\n  - a b\n  - yes\n  - 2001-01-01\n  - |\n    block\n  - '1.5'\nflag: true\nmap: {k: v, on: \"x\"}\nnested:\n  number: -3\n",
		"---\nnumber: 7\nlist: [a b, 'yes', \"2001-01-01\", \"block\\n\", \"1.5\"]\nflag: true # yes\nmap:\n  k: v\n  on: x\nnested: {number: -3}\n...\n",
		"number: 7\r\nlist: [a b, yes, 2001-01-01, \"block\\n\", '1.5']\r\nflag: true\r\nmap: {k: v, on: x}\r\nnested: {number: -3}\r\n",
	} {
		var d document
		require.NoError(t, canonical.DecodeYAML([]byte(text), &d, canonical.Bounds{}))
		require.Equal(t, want, d)
	}
}

// B19
func TestYAMLThatIsNotPlainIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		rule error
	}{
		{"", canonical.ErrNull},
		{"# nothing\n", canonical.ErrNull},
		{"number:\n", canonical.ErrNull},
		{"number: ~\n", canonical.ErrNull},
		{"number: null\n", canonical.ErrNull},
		{"list: [a, ]\nnumber: &x 1\n", canonical.ErrYAMLFeature},
		{"list: [*x]\n", canonical.ErrYAMLFeature},
		{"number: !!int 1\n", canonical.ErrYAMLFeature},
		{"list: !custom [a]\n", canonical.ErrYAMLFeature},
		{"<<: {number: 1}\n", canonical.ErrYAMLFeature},
		{"%YAML 1.2\n---\nnumber: 1\n", canonical.ErrYAMLFeature},
		{"number: 1\n---\nflag: true\n", canonical.ErrYAMLFeature},
		{"map: {1: a}\n", canonical.ErrYAMLFeature},
		{"map: {true: a}\n", canonical.ErrYAMLFeature},
		{"map: {~: a}\n", canonical.ErrYAMLFeature},
		{"number: 1\nnumber: 2\n", canonical.ErrDuplicate},
		{"number: 1\n\"number\": 2\n", canonical.ErrDuplicate},
		{"map: {a: b, 'a': c}\n", canonical.ErrDuplicate},
		{"number: 0x10\n", canonical.ErrNumber},
		{"number: 0o17\n", canonical.ErrNumber},
		{"number: 017\n", canonical.ErrNumber},
		{"number: 0b1\n", canonical.ErrNumber},
		{"number: 1_000\n", canonical.ErrNumber},
		{"number: +1\n", canonical.ErrNumber},
		{"number: -0\n", canonical.ErrNumber},
		{"number: 1.0\n", canonical.ErrNumber},
		{"number: .inf\n", canonical.ErrNumber},
		{"number: .nan\n", canonical.ErrNumber},
		{"number: 9007199254740992\n", canonical.ErrNumber},
		{"flag: yes\n", canonical.ErrType},
		{"flag: True\n", canonical.ErrType},
		{"number: '1'\n", canonical.ErrType},
		{"map: {k: 1}\n", canonical.ErrType},
		{"other: 1\n", canonical.ErrUnknownField},
		{"list: [a\n", canonical.ErrSyntax},
		{"number: 1\n flag: true\n", canonical.ErrSyntax},
		{"\tnumber: 1\n", canonical.ErrSyntax},
		{"list: [\"\\ud800\"]\n", canonical.ErrSyntax},
		{"number: \x001\n", canonical.ErrUnicode},
		{"list: [a\x1b]\n", canonical.ErrUnicode},
		{"list: [a\xff]\n", canonical.ErrUnicode},
		{"list: [a\u2028]\n", canonical.ErrUnicode},
		{"list: [a\u0085]\n", canonical.ErrUnicode},
		{"number: 1\rflag: true", canonical.ErrUnicode},
		{"\ufeffnumber: 1\n", canonical.ErrUnicode},
		{"list:\n" + strings.Repeat("- a\n", 16384), canonical.ErrTooManyValues}, // would take the parser minutes
		{strings.Repeat("[", 10000), canonical.ErrTooDeep},
		{strings.Repeat("- ", 10000), canonical.ErrTooDeep},
		{strings.Repeat("? ", 10000), canonical.ErrTooDeep},
		{strings.Repeat("{a: ", 4000), canonical.ErrTooDeep},
	} {
		name := c.text
		if len(name) > 60 {
			name = name[:60]
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var d document
			require.ErrorIs(t, canonical.DecodeYAML([]byte(c.text), &d, canonical.Bounds{}), c.rule)
		})
	}
}

// A28
func TestErrorsNeverQuoteAValue(t *testing.T) {
	t.Parallel()
	const canary = "hvs.CANARY"
	for _, text := range []string{
		`{"number":"hvs.CANARY"}`, `{"list":["hvs.CANARY",1]}`, `{"list":["hvs.CANARY\ud800"]}`, `{"list":["hvs.CANARY`,
		`{"list":["hvs.CANARY",null]}`, `{"list":["hvs.CANARY"]} x`,
	} {
		var d document
		err := canonical.DecodeJSON([]byte(text), &d, canonical.Bounds{})
		require.Error(t, err)
		require.NotContains(t, err.Error(), canary)
		require.NotContains(t, fmt.Sprintf("%+v %s", err, err), canary)
	}
	for _, text := range []string{
		"number: hvs.CANARY\n", "list: [hvs.CANARY\n", "list: [hvs.CANARY, ~]\n", "list: [&hvs.CANARY a]\n", "list: [*hvs.CANARY]\n",
		"a: hvs.CANARY: b\n", "list: !hvs.CANARY a\n", "list: \"hvs.CANARY\n", "number: 1\n  hvs.CANARY\n x: y",
	} {
		var d document
		err := canonical.DecodeYAML([]byte(text), &d, canonical.Bounds{})
		require.Error(t, err, text)
		require.NotContains(t, err.Error(), canary)
	}
}
