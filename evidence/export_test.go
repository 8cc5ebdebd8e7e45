package evidence_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
)

func export(t testing.TB, rec evidence.Record, trust evidence.Trust) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, evidence.WriteExport(&b, rec, trust))
	return b.Bytes()
}

// A20
func TestAnExportVerifiesWhereverItIsRead(t *testing.T) {
	t.Parallel()
	signer := signerFrom(t, 1)
	rec := fullRecord(t, signer)
	data := export(t, rec, trusting(t, signer))
	got, err := evidence.ReadExport(bytes.NewReader(data))
	require.NoError(t, err)
	require.Equal(t, rec, got.Record)
	require.Equal(t, signer.KeyID(), got.KeyID)
	require.NotEmpty(t, got.PublicKey)
	require.True(t, evidence.VerifyOffline(got.Record, trusting(t, signer)).OK())
	require.False(t, evidence.VerifyOffline(got.Record, trusting(t, signerFrom(t, 2))).OK(), "the hint is not believed")

	noHint, err := evidence.ReadExport(bytes.NewReader(export(t, rec, trusting(t, signerFrom(t, 2)))))
	require.NoError(t, err)
	require.Empty(t, noHint.KeyID)
}

func TestAnExportOfARunInProgressIsReadable(t *testing.T) {
	t.Parallel()
	rec := evidence.Record{Run: runID, Facts: goodFacts(t)[:5]}
	got, err := evidence.ReadExport(bytes.NewReader(export(t, rec, evidence.Trust{})))
	require.NoError(t, err)
	require.Equal(t, rec, got.Record)
	require.False(t, evidence.VerifyOffline(got.Record, trusting(t, signerFrom(t, 1))).OK())
}

// CASES 42. B19
func TestADamagedExportIsRefused(t *testing.T) {
	t.Parallel()
	signer := signerFrom(t, 1)
	data := export(t, fullRecord(t, signer), trusting(t, signer))
	lines := strings.SplitAfter(string(data), "\n")
	lines = lines[:len(lines)-1]
	join := func(parts ...string) string { return strings.Join(parts, "") }
	all := func(edit func([]string) []string) string { return join(edit(append([]string(nil), lines...))...) }
	for name, text := range map[string]string{
		"empty":            "",
		"no end":           all(func(l []string) []string { return l[:len(l)-1] }),
		"cut in a line":    string(data[:len(data)-2]),
		"no final newline": strings.TrimSuffix(string(data), "\n"),
		"line left out":    all(func(l []string) []string { return append(l[:3], l[4:]...) }),
		"after the end":    string(data) + "{}\n",
		"no header":        all(func(l []string) []string { return l[1:] }),
		"two headers":      all(func(l []string) []string { return append([]string{l[0]}, l...) }),
		"only an end":      "{\"type\":\"end\"}\n",
		"empty line":       all(func(l []string) []string { return append([]string{l[0], "\n"}, l[1:]...) }),
		"space":            strings.Replace(string(data), "{", "{ ", 1),
		"unknown type":     strings.Replace(string(data), `"type":"fact"`, `"type":"tale"`, 1),
		"unknown version":  strings.Replace(string(data), `"version":1`, `"version":2`, 1),
		"unknown field":    strings.Replace(string(data), `"version":1`, `"version":1,"x":1`, 1),
		"duplicate field":  strings.Replace(string(data), `"version":1`, `"version":1,"version":1`, 1),
		"two envelopes":    all(func(l []string) []string { return append(l[:14:14], l[13:]...) }),
		"carriage returns": strings.ReplaceAll(string(data), "\n", "\r\n"),
		"fact not as made": strings.Replace(string(data), `"epoch":0`, `"epoch":0.0`, 1),
		"bad base64":       strings.Replace(string(data), `"base64":"`, `"base64":"*`, 1),
	} {
		_, err := evidence.ReadExport(strings.NewReader(text))
		require.ErrorIs(t, err, evidence.ErrExport, name)
	}
}

// Whichever byte of an export is changed, it is not read, or not verified, or only the hint is another one.
func TestAChangedByteInAnExportIsFound(t *testing.T) {
	t.Parallel()
	signer := signerFrom(t, 1)
	trust := trusting(t, signer)
	rec := fullRecord(t, signer)
	data := export(t, rec, trust)
	for i := 0; i < len(data); i += 29 {
		changed := bytes.Clone(data)
		changed[i] ^= 1
		got, err := evidence.ReadExport(bytes.NewReader(changed))
		if err != nil {
			continue
		}
		if evidence.VerifyOffline(got.Record, trust).OK() {
			require.Equal(t, rec, got.Record, "byte %d", i)
		}
	}
}
