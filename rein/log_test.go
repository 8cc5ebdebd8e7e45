package rein_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/rein"
	"github.com/rein-aharness/harness/rein/credential"
)

func logged(t testing.TB, limit int64, values []string, writes ...string) (string, *rein.Log) {
	t.Helper()
	var secrets [][]byte
	for _, value := range values {
		secrets = append(secrets, []byte(value))
	}
	var out bytes.Buffer
	log := rein.NewLog(&out, limit, secrets...)
	for _, write := range writes {
		n, err := log.Write([]byte(write))
		require.NoError(t, err)
		require.Equal(t, len(write), n)
	}
	require.NoError(t, log.Close())
	length, digest, _ := log.Kept()
	sum := sha256.Sum256(out.Bytes())
	require.EqualValues(t, out.Len(), length)
	require.Equal(t, "sha256:"+hex.EncodeToString(sum[:]), digest)
	return out.String(), log
}

// A27, A28, CASES 40
func TestTheLogMasksReleasedValuesInEveryForm(t *testing.T) {
	t.Parallel()
	const value = "canary-7f3a9d/+x="
	const key = "-----BEGIN KEY-----\nAAAAfirstlineAAAA\nBBBBsecondlineBBBB\n-----END KEY-----\n"
	for name, text := range map[string]string{
		"raw":    value,
		"base64": base64.StdEncoding.EncodeToString([]byte("user:" + value)),
		"hex":    hex.EncodeToString([]byte(value)),
		"URL":    "canary-7f3a9d%2F%2Bx%3D",
		"line":   "BBBBsecondlineBBBB",
	} {
		for cut := range len(text) {
			out, _ := logged(t, 1<<10, []string{value, key}, "before ", text[:cut], text[cut:], " after\n")
			require.NotContains(t, out, text, name)
			require.Contains(t, out, credential.Redacted, name)
			require.True(t, strings.HasPrefix(out, "before ") && strings.HasSuffix(out, " after\n"), "%s: %s", name, out)
		}
	}
	out, _ := logged(t, 1<<10, []string{value}, "ends in "+value[:len(value)-1])
	require.Equal(t, "ends in "+credential.Redacted, out)
}

// CASES 38, 41
func TestTheLogShowsWhatDoesNotShowItself(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"clear screen":    "\x1b[2J",
		"title":           "\x1b]0;owned\x07",
		"C1 introducer":   "\u009b31m",
		"raw C1":          "\x9b31m",
		"carriage return": "passed\rfailed",
		"backspace":       "a\bb",
		"bidi":            "\u202egnp",
		"isolate":         "\u2066x",
		"zero width":      "a\u200bb",
		"tag":             "\U000e0041",
		"line separator":  "a\u2028b",
		"NUL":             "a\x00b",
		"bad UTF-8":       "a\xff\xc3b",
	} {
		out, _ := logged(t, 1<<10, nil, "« "+text+" »\n")
		for _, r := range out {
			require.True(t, r == '\n' || r >= ' ' && r < 0x7f || r == '«' || r == '»', "%s: %q", name, out)
		}
		require.Contains(t, out, `\`, name)
	}
	out, _ := logged(t, 1<<10, nil, "tab\there\nümlaut ", "\xe2", "\x82", "\xac\n")
	require.Equal(t, "tab\there\nümlaut €\n", out, "what shows itself stays, also when a write cuts a character")
}

// CASES 19
func TestALongLogIsCutAndSaysSo(t *testing.T) {
	t.Parallel()
	line := strings.Repeat("x", 1<<16)
	writes := make([]string, 64)
	for i := range writes {
		writes[i] = line
	}
	out, log := logged(t, 1000, nil, writes...)
	require.Equal(t, strings.Repeat("x", 1000)+"\n[session log cut here]\n", out)
	_, _, truncated := log.Kept()
	require.True(t, truncated)

	_, log = logged(t, 5, nil, "12345")
	_, _, truncated = log.Kept()
	require.False(t, truncated, "a log of exactly the bound is whole")
}

type brokenWriter struct{}

var errDisk = errors.New("disk")

func (brokenWriter) Write([]byte) (int, error) { return 0, errDisk }

func TestALogThatCannotBeKeptFailsForGood(t *testing.T) {
	t.Parallel()
	log := rein.NewLog(brokenWriter{}, 100)
	_, err := log.Write([]byte("a"))
	require.ErrorIs(t, err, errDisk)
	_, err = log.Write([]byte("b"))
	require.ErrorIs(t, err, errDisk)
	require.ErrorIs(t, log.Close(), errDisk)
}

func TestWritesFromManyStreamsDoNotMix(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := rein.NewLog(&out, 1<<20)
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			for range 100 {
				fmt.Fprintf(log, "line of %d\n", i)
			}
		})
	}
	wait.Wait()
	require.NoError(t, log.Close())
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	require.Len(t, lines, 800)
	for _, line := range lines {
		require.Regexp(t, `^line of \d$`, line)
	}
}

func FuzzLog(f *testing.F) {
	f.Add([]byte("canary-value"), []byte("a canary-value \x1b[2J\r\n"), 4)
	f.Add([]byte("two\nlines-of-it"), []byte("lines-of-it\xe2\x82"), 2)
	f.Fuzz(func(t *testing.T, value, data []byte, cut int) {
		if len(value) < 6 || len(value) > 1<<10 || strings.Contains(credential.Redacted, string(value)) {
			return
		}
		cut = min(max(cut, 0), len(data))
		parts, _ := logged(t, 1<<20, []string{string(value)}, string(data[:cut]), string(data[cut:]))
		whole, _ := logged(t, 1<<20, []string{string(value)}, string(data))
		require.Equal(t, whole, parts)
		for _, r := range whole {
			require.True(t, r == '\n' || r == '\t' || r >= ' ' && r != 0x7f && (r < 0x80 || r >= 0xa0), "%q", r)
		}
		if strings.Contains(whole, `\`) {
			return // an escape beside text may spell the value by chance
		}
		for _, clear := range strings.Split(whole, credential.Redacted) {
			require.NotContains(t, clear, string(value))
		}
	})
}
