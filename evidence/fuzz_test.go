package evidence_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
)

// A fact that is read is written again as the same bytes, and no body that opens holds what Append cannot have written. B19
func FuzzDecodeFact(f *testing.F) {
	for _, fact := range goodFacts(f) {
		data, err := fact.Encode()
		require.NoError(f, err)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		fact, err := evidence.DecodeFact(data)
		if err != nil {
			return
		}
		again, err := fact.Encode()
		require.NoError(t, err)
		require.True(t, bytes.Equal(data, again))
		body, err := fact.Open()
		if err != nil {
			return
		}
		require.Equal(t, fact.Kind, body.Kind())
	})
}

// An export that is read is written again with the same record, and nothing that differs from the good record verifies. B19
func FuzzReadExport(f *testing.F) {
	signer := signerFrom(f, 1)
	trust := trusting(f, signer)
	rec := fullRecord(f, signer)
	f.Add(export(f, rec, trust))
	f.Add(export(f, evidence.Record{Run: runID, Facts: goodFacts(f)[:2]}, trust))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := evidence.ReadExport(bytes.NewReader(data))
		if err != nil || !evidence.VerifyOffline(got.Record, trust).OK() {
			return
		}
		require.Equal(t, rec.Facts, got.Record.Facts)
		require.Equal(t, rec.Envelope, got.Record.Envelope)
	})
}

// A trust file that is read is written again with the same meaning. B19
func FuzzParseTrust(f *testing.F) {
	data, err := trusting(f, signerFrom(f, 1), signerFrom(f, 2)).Encode()
	require.NoError(f, err)
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		trust, err := evidence.ParseTrust(data)
		if err != nil {
			return
		}
		text, err := trust.Encode()
		require.NoError(t, err)
		again, err := evidence.ParseTrust(text)
		require.NoError(t, err)
		require.Equal(t, trust, again)
	})
}
