package sandbox_test

import (
	"archive/tar"
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/sandbox"
)

type file struct {
	name, content, link string
	mode                int64
}

func tarOf(t testing.TB, files ...file) io.Reader {
	t.Helper()
	var buf bytes.Buffer
	tw := tar.NewWriter(&buf)
	for _, f := range files {
		h := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.content)), Typeflag: tar.TypeReg}
		if f.link != "" {
			h.Typeflag, h.Linkname = tar.TypeSymlink, f.link
		}
		require.NoError(t, tw.WriteHeader(h))
		_, err := tw.Write([]byte(f.content))
		require.NoError(t, err)
	}
	require.NoError(t, tw.Close())
	return &buf
}

// A22, A24
func TestASandboxRunsACommandAndGivesItsChangesBack(t *testing.T) {
	t.Parallel()
	for _, runtime := range []string{sandbox.RuntimeRunc, sandbox.RuntimeRunsc} {
		t.Run(runtime, func(t *testing.T) {
			t.Parallel()
			s := newSandbox(t, openVenue(t), testSpec(t, runtime))
			require.NoError(t, s.Unpack(t.Context(), tarOf(t,
				file{name: "a.txt", content: "old\n", mode: 0o644}, file{name: "dir/run.sh", content: "#!\n", mode: 0o755}, file{name: "link", link: "a.txt"})))
			require.Equal(t, "hello\n", must(t, s, "echo", "hello"))
			got := map[string]sandbox.Entry{}
			require.NoError(t, s.Capture(t.Context(), sandbox.Bounds{Entries: 100, Bytes: 1 << 20, FileBytes: 1 << 20, Depth: 10, PathBytes: 1000},
				map[string]sandbox.Known{"a.txt": {Mode: 0o100644, Size: 4, SHA1: "3367afdbbf91e638efe983616377c60477cc6612"}},
				func(e sandbox.Entry) error {
					got[e.Path] = e
					return nil
				}))
			require.True(t, got["a.txt"].Same)
			require.Equal(t, sandbox.KindExec, got["dir/run.sh"].Kind)
			require.Equal(t, "a.txt", got["link"].Target)
			require.Len(t, got, 3)
		})
	}
}
