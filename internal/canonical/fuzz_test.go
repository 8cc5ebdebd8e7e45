package canonical_test

import (
	"bytes"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/internal/canonical"
)

// What is accepted has one canonical form, and that form is accepted with the same meaning. B18, B19
func FuzzDecodeJSON(f *testing.F) {
	for _, seed := range []string{`{"number":1,"list":["a"]}`, `{"list":["\ud83d\ude00"]}`, `{"a":1,"a":2}`, `[[[]]]`, `{"number":9007199254740993}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		form, err := canonical.Transform(data, canonical.Bounds{})
		if err != nil {
			return
		}
		again, err := canonical.Transform(form, canonical.Bounds{})
		require.NoError(t, err)
		require.True(t, bytes.Equal(form, again))

		var one, two document
		if canonical.DecodeJSON(data, &one, canonical.Bounds{}) != nil {
			return
		}
		require.NoError(t, canonical.DecodeJSON(form, &two, canonical.Bounds{}))
		require.Equal(t, one, two)
	})
}

// What is accepted means the same to the YAML library's own decoder. B19
func FuzzDecodeYAML(f *testing.F) {
	for _, seed := range []string{
		"number: 1\nlist: [a, 'b', \"c\"]\n", "- - - a\n", "a: |\n  b\n", "? a\n: b\n", "a: &b c\nd: *b\n", "{a: b, c: [d]}", "<<: {a: b}\n",
		"a: >-\n  b\n\n  c\n", "%YAML 1.2\n---\n", "!!map {a: b}\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var ours map[string]any
		if canonical.DecodeYAML(data, &ours, canonical.Bounds{MaxBytes: 4096}) != nil {
			return
		}
		var theirs map[string]any
		require.NoError(t, yaml.Unmarshal(data, &theirs))
		left, err := canonical.Marshal(ours)
		require.NoError(t, err)
		right, err := canonical.Marshal(theirs)
		require.NoError(t, err)
		require.Equal(t, string(left), string(right))
	})
}
