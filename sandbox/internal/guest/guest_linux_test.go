package guest

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/sandbox/internal/wire"
)

func TestOptionsSurviveTheCommandLine(t *testing.T) {
	t.Parallel()
	want := Options{UID: 1000, GID: 1001, TTL: 90 * time.Minute, Keepalive: 1500 * time.Millisecond}
	got, err := ParseOptions(want.Args())
	require.NoError(t, err)
	require.Equal(t, want, got)
	for _, o := range []Options{{}, {UID: 0, GID: 1, TTL: 1, Keepalive: 1}, {UID: 1, GID: 0, TTL: 1, Keepalive: 1}, {UID: 1, GID: 1, Keepalive: 1}, {UID: 1, GID: 1, TTL: 1}} {
		_, err := ParseOptions(o.Args())
		require.Error(t, err, "%+v", o)
	}
	_, err = ParseOptions(append(want.Args(), "more"))
	require.Error(t, err)
}

func TestTheInitRefusesToRunOutsideAContainer(t *testing.T) {
	t.Parallel()
	require.Equal(t, wire.HelperFailed, Main(Options{UID: 1, GID: 1, TTL: time.Hour, Keepalive: time.Second}.Args()))
}

func TestACommandIsFoundInTheSessionsPath(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		env  []string
		want []string
	}{
		{"/bin/x", nil, []string{"/bin/x"}},
		{"./x", []string{"PATH=/bin"}, []string{"./x"}},
		{"x", []string{"PATH=/a:relative::/b"}, []string{"/a/x", "/b/x"}},
		{"x", []string{"PATH=/a", "PATH=/b"}, []string{"/b/x"}},
		{"x", nil, nil},
		{"x", []string{"PATH="}, nil},
	} {
		got, err := lookup(c.name, c.env)
		require.Equal(t, c.want == nil, err != nil)
		require.Equal(t, c.want, got)
	}
}

// CASES 22
func FuzzUnpack(f *testing.F) {
	archive := func(heads ...tar.Header) []byte {
		var buf bytes.Buffer
		tw := tar.NewWriter(&buf)
		for _, h := range heads {
			if tw.WriteHeader(&h) == nil && h.Size > 0 {
				_, _ = tw.Write(bytes.Repeat([]byte("x"), int(h.Size)))
			}
		}
		_ = tw.Close()
		return buf.Bytes()
	}
	f.Add(archive(tar.Header{Name: "a/b", Size: 3, Mode: 0o755}, tar.Header{Name: "dir/", Typeflag: tar.TypeDir}, tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "../outside"}))
	f.Add(archive(tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: ".."}, tar.Header{Name: "l/escaped", Size: 1}))
	f.Add(archive(tar.Header{Name: "../escaped", Size: 1}, tar.Header{Name: "/escaped", Size: 1}))
	f.Add(archive(tar.Header{Name: "h", Typeflag: tar.TypeLink, Linkname: "../sentinel"}, tar.Header{Name: "p", Typeflag: tar.TypeFifo}))
	f.Fuzz(func(t *testing.T, data []byte) {
		parent := t.TempDir()
		dir := filepath.Join(parent, "workspace")
		require.NoError(t, os.Mkdir(dir, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(parent, "sentinel"), []byte("untouched"), 0o600))
		_ = unpack(dir, bytes.NewReader(data))
		names, err := os.ReadDir(parent)
		require.NoError(t, err)
		require.Len(t, names, 2)
		sentinel, err := os.ReadFile(filepath.Join(parent, "sentinel"))
		require.NoError(t, err)
		require.Equal(t, "untouched", string(sentinel))
		require.NoError(t, filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() && !d.Type().IsRegular() && d.Type() != os.ModeSymlink {
				t.Fatalf("%s has type %s", d.Name(), d.Type())
			}
			return err
		}))
	})
}
