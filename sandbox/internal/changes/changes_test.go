package changes_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/sandbox/internal/changes"
)

var bounds = changes.Bounds{Entries: 8, Bytes: 1 << 20, FileBytes: 1 << 19, Depth: 4, PathBytes: 64}

const magic = "harness changes 1\n"

// raw builds a stream by hand: strings go in as they are, uint32 and uint64 big-endian, str with its length.
func raw(parts ...any) []byte {
	var b []byte
	for _, p := range parts {
		switch v := p.(type) {
		case string:
			b = append(b, v...)
		case uint32:
			b = binary.BigEndian.AppendUint32(b, v)
		case uint64:
			b = binary.BigEndian.AppendUint64(b, v)
		case str:
			b = binary.BigEndian.AppendUint32(b, uint32(len(v)))
			b = append(b, v...)
		}
	}
	return b
}

type str string

func decode(stream []byte) (map[string]string, error) {
	got := map[string]string{}
	err := changes.Decode(bytes.NewReader(stream), bounds, func(p string) bool { return p == "known" }, func(e changes.Entry) error {
		if e.Content == nil {
			got[e.Path] = e.Target
			return nil
		}
		b, err := io.ReadAll(e.Content)
		got[e.Path] = string(b)
		return err
	})
	return got, err
}

// A34
func TestAForgedStreamIsRefused(t *testing.T) {
	t.Parallel()
	end := func(entries, size uint64) []byte { return raw("E", entries, size) }
	cat := func(parts ...[]byte) []byte { return slices.Concat(parts...) }
	for name, c := range map[string]struct {
		stream []byte
		want   error
	}{
		"empty":                 {nil, changes.ErrMalformed},
		"wrong beginning":       {raw("harness changes 2\n", "E", uint64(0), uint64(0)), changes.ErrMalformed},
		"no end":                {raw(magic), changes.ErrMalformed},
		"cut in an entry":       {raw(magic, "f", str("a"), uint64(3), str("ab")), changes.ErrMalformed},
		"unknown tag":           {raw(magic, "d", str("a")), changes.ErrMalformed},
		"data after the end":    {cat(raw(magic), end(0, 0), []byte("x")), changes.ErrMalformed},
		"wrong entry count":     {cat(raw(magic), end(1, 0)), changes.ErrMalformed},
		"wrong total":           {cat(raw(magic, "f", str("a"), uint64(1), str("x"), uint32(0)), end(1, 2)), changes.ErrMalformed},
		"twice":                 {cat(raw(magic, "l", str("a"), str("t"), "l", str("a"), str("t")), end(2, 2)), changes.ErrMalformed},
		"out of order":          {cat(raw(magic, "l", str("b"), str("t"), "l", str("a"), str("t")), end(2, 2)), changes.ErrMalformed},
		"file is a folder":      {cat(raw(magic, "l", str("a"), str("t"), "l", str("a/b"), str("t")), end(2, 2)), changes.ErrMalformed},
		"same but not known":    {cat(raw(magic, "=", str("a")), end(1, 0)), changes.ErrMalformed},
		"absolute":              {cat(raw(magic, "l", str("/a"), str("t")), end(1, 1)), changes.ErrMalformed},
		"up":                    {cat(raw(magic, "l", str("../a"), str("t")), end(1, 1)), changes.ErrMalformed},
		"up inside":             {cat(raw(magic, "l", str("a/../b"), str("t")), end(1, 1)), changes.ErrMalformed},
		"dot":                   {cat(raw(magic, "l", str("."), str("t")), end(1, 1)), changes.ErrMalformed},
		"empty segment":         {cat(raw(magic, "l", str("a//b"), str("t")), end(1, 1)), changes.ErrMalformed},
		"trailing slash":        {cat(raw(magic, "l", str("a/"), str("t")), end(1, 1)), changes.ErrMalformed},
		"empty path":            {cat(raw(magic, "l", str(""), str("t")), end(1, 1)), changes.ErrMalformed},
		"NUL in a path":         {cat(raw(magic, "l", str("a\x00b"), str("t")), end(1, 1)), changes.ErrMalformed},
		"empty link target":     {cat(raw(magic, "l", str("a"), str("")), end(1, 0)), changes.ErrMalformed},
		"NUL in a target":       {cat(raw(magic, "l", str("a"), str("\x00")), end(1, 1)), changes.ErrMalformed},
		"endless link target":   {raw(magic, "l", str("a"), uint32(1<<31)), changes.ErrMalformed},
		"path too long":         {raw(magic, "l", str(strings.Repeat("a", 65)), str("t")), changes.ErrDepth},
		"endless path":          {raw(magic, "l", uint32(1<<32-1)), changes.ErrDepth},
		"too deep":              {raw(magic, "l", str("a/b/c/d/e"), str("t")), changes.ErrDepth},
		"shorter than said":     {cat(raw(magic, "f", str("a"), uint64(3), str("ab"), uint32(0)), end(1, 2)), changes.ErrLength},
		"longer than said":      {cat(raw(magic, "f", str("a"), uint64(1), str("ab"), uint32(0)), end(1, 2)), changes.ErrLength},
		"huge size":             {raw(magic, "f", str("a"), uint64(1<<63)), changes.ErrBytes},
		"file too large":        {raw(magic, "f", str("a"), uint64(1<<19+1)), changes.ErrBytes},
		"huge chunk":            {raw(magic, "f", str("a"), uint64(1<<19), uint32(1<<18)), changes.ErrMalformed},
		"unknown fault":         {raw(magic, "!", str("completed"), str("a")), changes.ErrMalformed},
		"fault without subject": {raw(magic, "!", str(changes.FaultType)), changes.ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := decode(c.stream)
			require.ErrorIs(t, err, c.want)
		})
	}
}

func TestTotalsAreBounded(t *testing.T) {
	t.Parallel()
	var buf bytes.Buffer
	enc, err := changes.NewEncoder(&buf)
	require.NoError(t, err)
	for _, name := range []string{"a", "b", "c"} {
		require.NoError(t, enc.File(name, changes.File, 1<<19, strings.NewReader(strings.Repeat("x", 1<<19))))
	}
	require.NoError(t, enc.End())
	_, err = decode(buf.Bytes())
	require.ErrorIs(t, err, changes.ErrBytes)

	buf.Reset()
	enc, err = changes.NewEncoder(&buf)
	require.NoError(t, err)
	for c := 'a'; c < 'j'; c++ {
		require.NoError(t, enc.Symlink(string(c), "t"))
	}
	require.NoError(t, enc.End())
	_, err = decode(buf.Bytes())
	require.ErrorIs(t, err, changes.ErrEntries)
}

func TestAStreamComesOutAsItWentIn(t *testing.T) {
	t.Parallel()
	var buf bytes.Buffer
	enc, err := changes.NewEncoder(&buf)
	require.NoError(t, err)
	long := strings.Repeat("0123456789", 20_000)
	require.NoError(t, enc.File("a/b", changes.File, 0, strings.NewReader("")))
	require.NoError(t, enc.File("a.b", changes.Exec, int64(len(long)), strings.NewReader(long)))
	require.NoError(t, enc.Same("known"))
	require.NoError(t, enc.Symlink("link", "a/b"))
	require.NoError(t, enc.End())
	got, err := decode(buf.Bytes())
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a/b": "", "a.b": long, "known": "", "link": "a/b"}, got)
}

func TestAFaultCarriesItsSubject(t *testing.T) {
	t.Parallel()
	var buf bytes.Buffer
	enc, err := changes.NewEncoder(&buf)
	require.NoError(t, err)
	require.NoError(t, enc.Fault(changes.FaultType, "a\nfifo"))
	_, err = decode(buf.Bytes())
	var f *changes.Fault
	require.ErrorAs(t, err, &f)
	require.Equal(t, changes.Fault{Code: changes.FaultType, Subject: "a\nfifo"}, *f)
}

func TestKnownFilesComeOutAsTheyWentIn(t *testing.T) {
	t.Parallel()
	known := map[string]changes.Known{
		"a": {Mode: 0o100644, Size: 3, SHA1: strings.Repeat("ab", 20)}, "ü\n": {Mode: 0o120000, Size: 1 << 40, SHA1: strings.Repeat("00", 20)},
	}
	var buf bytes.Buffer
	require.NoError(t, changes.WriteKnown(&buf, known))
	got, err := changes.ReadKnown(&buf)
	require.NoError(t, err)
	require.Equal(t, known, got)
	require.Error(t, changes.WriteKnown(io.Discard, map[string]changes.Known{"a": {SHA1: "short"}}))
}

// A34
func FuzzDecode(f *testing.F) {
	f.Add([]byte(magic + "E\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"))
	f.Add(raw(magic, "f", str("a"), uint64(3), str("abc"), uint32(0), "x", str("b/c"), uint64(0), uint32(0), "l", str("d"), str("b/c"), "=", str("known"), "E", uint64(4), uint64(6)))
	f.Add(raw(magic, "!", str(changes.FaultUnreadable), str("a")))
	f.Add(raw(magic, "f", str("a"), uint64(3), str("ab"), uint32(0)))
	f.Fuzz(func(t *testing.T, stream []byte) {
		var again bytes.Buffer
		enc, err := changes.NewEncoder(&again)
		require.NoError(t, err)
		entries, total := 0, int64(0)
		last := ""
		err = changes.Decode(bytes.NewReader(stream), bounds, func(p string) bool { return p == "known" }, func(e changes.Entry) error {
			entries++
			require.NotEqual(t, last, e.Path)
			last = e.Path
			total += e.Size
			switch {
			case e.Same:
				return enc.Same(e.Path)
			case e.Kind == changes.Symlink:
				return enc.Symlink(e.Path, e.Target)
			}
			return enc.File(e.Path, e.Kind, e.Size, e.Content)
		})
		require.LessOrEqual(t, entries, bounds.Entries)
		if err != nil {
			return
		}
		require.LessOrEqual(t, total, bounds.Bytes)
		require.NoError(t, enc.End())
		// What was accepted means the same when it is written again.
		first, err := decode(stream)
		require.NoError(t, err)
		second, err := decode(again.Bytes())
		require.NoError(t, err)
		require.Equal(t, first, second)
	})
}

func TestAFailingSourceIsReported(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	r := io.MultiReader(bytes.NewReader(raw(magic, "f", str("a"), uint64(9))), failing{broken})
	err := changes.Decode(r, bounds, func(string) bool { return false }, func(e changes.Entry) error {
		_, err := io.ReadAll(e.Content)
		return err
	})
	require.ErrorIs(t, err, broken)
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
