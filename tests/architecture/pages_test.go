package architecture

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// B46
func TestThePagesHangTogether(t *testing.T) {
	t.Parallel()
	bad, err := CheckPages(os.DirFS(repository))
	require.NoError(t, err)
	for _, v := range bad {
		t.Error(v)
	}
}

func TestCheckPagesCatches(t *testing.T) {
	t.Parallel()
	const decision = "# 0001 One\n\n## Context\n\nx\n\n## Decision\n\nx\n\n## Consequences\n\nx\n"
	for name, c := range map[string]struct {
		file, text, want string
	}{
		"nothing":                     {"README.md", "[a](docs/adr/README.md#x) [b](#here) [c](https://example.org/)", ""},
		"a dead link":                 {"docs/a.md", "[a](adr/0002-two.md)", "links adr/0002-two.md"},
		"a decision outside the list": {"docs/adr/0002-two.md", strings.Replace(decision, "0001", "0002", 1), "the index does not list it"},
		"a decision half told":        {"docs/adr/0001-one.md", strings.Replace(decision, "## Consequences", "## After", 1), "## Consequences"},
		"a claim of exactly-once":     {"README.md", "Each run lands Exactly once.", "README.md:1: claims exactly-once"},
		"a denial of it":              {"README.md", "Nothing here is exactly-once.", ""},
		"a decision misnumbered":      {"docs/adr/0001-one.md", strings.Replace(decision, "0001", "0003", 1), "# 0001"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fsys := fstest.MapFS{
				"docs/adr/README.md":   {Data: []byte("[0001](0001-one.md)")},
				"docs/adr/0001-one.md": {Data: []byte(decision)},
			}
			fsys[c.file] = &fstest.MapFile{Data: []byte(c.text)}
			bad, err := CheckPages(fsys)
			require.NoError(t, err)
			if c.want == "" {
				require.Empty(t, bad)
				return
			}
			require.Len(t, bad, 1)
			require.Contains(t, bad[0].String(), c.want)
		})
	}
}
