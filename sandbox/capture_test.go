package sandbox_test

import (
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/sandbox"
)

var bounds = sandbox.Bounds{Entries: 2000, Bytes: 32 << 20, FileBytes: 16 << 20, Depth: 16, PathBytes: 1000}

func mustJSON(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return string(b)
}

// captured returns the paths that a capture visits.
func captured(t testing.TB, s *sandbox.Sandbox) []string {
	t.Helper()
	var paths []string
	require.NoError(t, s.Capture(t.Context(), bounds, nil, func(e sandbox.Entry) error {
		paths = append(paths, e.Path)
		return nil
	}))
	return paths
}

func blob(content string) sandbox.Known {
	sum := sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(content), content))
	return sandbox.Known{Mode: 0o100644, Size: int64(len(content)), SHA1: hex.EncodeToString(sum[:])}
}

// A34, CASES 26, 28, 34
func TestCaptureIsByteExact(t *testing.T) {
	t.Parallel()
	eachRuntime(t, func(t *testing.T, _ string, s *sandbox.Sandbox) {
		require.NoError(t, s.Unpack(t.Context(), tarOf(t,
			file{name: "same", content: "same", mode: 0o644}, file{name: "mode", content: "mode", mode: 0o644},
			file{name: "content", content: "old!", mode: 0o644}, file{name: "gone", content: "gone", mode: 0o644}, file{name: "raw\xfe", content: "raw", mode: 0o755})))
		must(t, s, "chmod", "/workspace/mode", "755")
		must(t, s, "write", "/workspace/content", "new!")
		must(t, s, "remove", "/workspace/gone")
		wrote := map[string]string{
			`crlf`: "a\r\nb\r\n", `empty`: "", `with space`: "1", `quote\"'`: "2", `new\nline`: "3", `not\xffutf8`: "4", `ü/ñ`: "5", `-dash`: "6", `a.b`: "7", `a/b`: "8",
		}
		for name, content := range wrote {
			must(t, s, "write", "/workspace/"+name, strings.ReplaceAll(strings.ReplaceAll(content, "\r", `\r`), "\n", `\n`))
		}
		must(t, s, "link", "/workspace/crlf", "/workspace/hard")
		must(t, s, "symlink", "/etc/passwd", "/workspace/soft")

		known := map[string]sandbox.Known{"same": blob("same"), "mode": blob("mode"), "content": blob("old!"), "gone": blob("gone")}
		got := map[string]string{}
		require.NoError(t, s.Capture(t.Context(), bounds, known, func(e sandbox.Entry) error {
			switch {
			case e.Same:
				got[e.Path] = "="
			case e.Kind == sandbox.KindSymlink:
				got[e.Path] = "-> " + e.Target
			default:
				b, err := io.ReadAll(e.Content)
				got[e.Path] = string(rune(e.Kind)) + string(b)
				return err
			}
			return nil
		}))
		require.Equal(t, map[string]string{
			"same": "=", "mode": "xmode", "content": "fnew!", "crlf": "fa\r\nb\r\n", "hard": "fa\r\nb\r\n", "empty": "f", "with space": "f1", `quote"'`: "f2",
			"new\nline": "f3", "not\xffutf8": "f4", "ü/ñ": "f5", "-dash": "f6", "a.b": "f7", "raw\xfe": "xraw", "a/b": "f8", "soft": "-> /etc/passwd",
		}, got)
	})
}

// A34
func TestCaptureRefusesWhatMayNotLeaveByName(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		commands [][]string
		code     evidence.Code
		subject  string
	}{
		"fifo":              {[][]string{{"mkfifo", "/workspace/p"}}, evidence.CodeFileTypeRefused, "p"},
		"socket":            {[][]string{{"socket", "/workspace/s"}}, evidence.CodeFileTypeRefused, "s"},
		"unreadable file":   {[][]string{{"write", "/workspace/u", "x"}, {"chmod", "/workspace/u", "000"}}, evidence.CodeFileUnreadable, "u"},
		"unreadable folder": {[][]string{{"write", "/workspace/d/u", "x"}, {"chmod", "/workspace/d", "000"}}, evidence.CodeFileUnreadable, "d"},
		"locked workspace":  {[][]string{{"chmod", "/workspace", "000"}}, evidence.CodeFileUnreadable, "."},
		"sparse":            {[][]string{{"sparse", "/workspace/big", "33554432"}}, evidence.CodeBytesExceeded, "big"},
		"total":             {[][]string{{"sparse", "/workspace/1", "16777216"}, {"sparse", "/workspace/2", "16777216"}, {"sparse", "/workspace/3", "1"}}, evidence.CodeBytesExceeded, "3"},
		"depth":             {[][]string{{"deep", "/workspace", "40"}}, evidence.CodeDepthExceeded, strings.TrimSuffix(strings.Repeat("d/", 17), "/")},
		"entries":           {[][]string{{"inodes", "/workspace", "2500"}}, evidence.CodeEntriesExceeded, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSandbox(t, openVenue(t), testSpec(t, sandbox.RuntimeRunc))
			for _, cmd := range c.commands {
				must(t, s, cmd...)
			}
			err := s.Capture(t.Context(), bounds, nil, func(sandbox.Entry) error { return nil })
			requireCode(t, err, c.code)
			var f *evidence.Failure
			require.ErrorAs(t, err, &f)
			require.Equal(t, c.subject, f.Subject)
			require.Equal(t, evidence.StageCapture, f.Stage)
		})
	}
}

func TestAnErrorOfTheVisitorEndsTheCapture(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, openVenue(t), testSpec(t, sandbox.RuntimeRunc))
	must(t, s, "sparse", "/workspace/1", "10000000")
	must(t, s, "sparse", "/workspace/2", "10000000")
	mine := errors.New("mine")
	require.ErrorIs(t, s.Capture(t.Context(), bounds, nil, func(sandbox.Entry) error { return mine }), mine)
}
