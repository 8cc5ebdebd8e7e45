package evidence_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
)

func trusted(s *evidence.Signer, notBefore, notAfter time.Time) evidence.TrustedKey {
	return evidence.TrustedKey{KeyID: s.KeyID(), Public: s.Public(), NotBefore: notBefore, NotAfter: notAfter}
}

func TestTrustFileIsReadAsItIsWritten(t *testing.T) {
	t.Parallel()
	second := start.Truncate(time.Second)
	trust, err := evidence.NewTrust(
		trusted(signerFrom(t, 1), second, second.Add(time.Hour)), trusted(signerFrom(t, 2), second.Add(time.Minute), time.Time{}))
	require.NoError(t, err)
	data, err := trust.Encode()
	require.NoError(t, err)
	again, err := evidence.ParseTrust(data)
	require.NoError(t, err)
	require.Equal(t, trust, again)

	path := filepath.Join(t.TempDir(), "trust.yaml")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	loaded, err := evidence.LoadTrust(path)
	require.NoError(t, err)
	require.Equal(t, trust, loaded)
	_, err = evidence.LoadTrust(path + ".none")
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestATrustFileThatIsNotExactIsRefused(t *testing.T) {
	t.Parallel()
	trust := trusting(t, signerFrom(t, 1))
	data, err := trust.Encode()
	require.NoError(t, err)
	good := string(data)
	_, err = evidence.ParseTrust(data)
	require.NoError(t, err)
	other := signerFrom(t, 2)
	for name, text := range map[string]string{
		"empty":           "",
		"no keys":         "keys: []\n",
		"unknown field":   good + "    note: x\n",
		"other key's id":  strings.Replace(good, signerFrom(t, 1).KeyID(), other.KeyID(), 1),
		"twice":           good + strings.TrimPrefix(good, "keys:\n"),
		"no time":         strings.Replace(good, "not_before", "not_after", 1),
		"zone":            strings.Replace(good, "Z\"", "+01:00\"", 1),
		"leap second":     strings.Replace(good, "04:05Z", "04:60Z", 1),
		"empty interval":  good + "    not_after: \"2020-01-01T00:00:00Z\"\n",
		"not base64":      strings.Replace(good, "MCow", "M*ow", 1),
		"not a key":       strings.Replace(good, "MCow", "MCox", 1),
		"several signers": good + "---\n" + good,
	} {
		_, err := evidence.ParseTrust([]byte(text))
		require.Error(t, err, name)
	}
}

// Rotation: what the old key signed while it was valid still verifies; nothing it signs later does.
func TestKeysRotate(t *testing.T) {
	t.Parallel()
	before, after := signerFrom(t, 1), signerFrom(t, 2)
	facts := goodFacts(t)
	closed, err := evidence.ParseTime(facts[len(facts)-1].At)
	require.NoError(t, err)
	verify := func(s *evidence.Signer, trust evidence.Trust) evidence.Report {
		return evidence.VerifyOffline(evidence.Record{Run: runID, Facts: facts, Envelope: sign(t, s, facts)}, trust)
	}
	rotatedLater, err := evidence.NewTrust(trusted(before, start.Add(-time.Hour), closed.Add(time.Microsecond)), trusted(after, closed.Add(time.Microsecond), time.Time{}))
	require.NoError(t, err)
	require.True(t, verify(before, rotatedLater).OK())
	requireFails(t, verify(after, rotatedLater), evidence.CheckKey, "not valid")

	rotatedAtClose, err := evidence.NewTrust(trusted(before, start.Add(-time.Hour), closed), trusted(after, closed, time.Time{}))
	require.NoError(t, err)
	requireFails(t, verify(before, rotatedAtClose), evidence.CheckKey, "not valid") // the interval is half-open (B42)
	require.True(t, verify(after, rotatedAtClose).OK())

	withdrawn := trusting(t, after)
	requireFails(t, verify(before, withdrawn), evidence.CheckSignature, before.KeyID())
}

// The key id is what openssl computes, and the private key is read as openssl writes it.
func TestKeysAreInStandardForms(t *testing.T) {
	t.Parallel()
	pem, err := evidence.EncodePrivateKey(keyFrom(1))
	require.NoError(t, err)
	key, err := evidence.ParsePrivateKey(pem)
	require.NoError(t, err)
	require.Equal(t, keyFrom(1), key)
	for _, bad := range [][]byte{nil, []byte("x"), append(bytes.Clone(pem), pem...), bytes.Replace(pem, []byte("PRIVATE"), []byte("PUBLIC"), 2)} {
		_, err := evidence.ParsePrivateKey(bad)
		require.ErrorIs(t, err, evidence.ErrKey)
	}
	_, err = evidence.NewSigner(ed25519.PrivateKey("short"))
	require.ErrorIs(t, err, evidence.ErrKey)
	// openssl pkey -in key.pem -pubout -outform DER | sha256sum
	require.Equal(t, "sha256:fd110d301d2f077de1414b8f99f441b1403fab207b2052fbd2c065e4ee8e7dc2", signerFrom(t, 1).KeyID())
}

// A28
func TestErrorsAboutKeysHoldNoKey(t *testing.T) {
	t.Parallel()
	secret := base64.StdEncoding.EncodeToString([]byte("CANARY-CANARY-CANARY"))
	_, err := evidence.ParsePrivateKey([]byte("-----BEGIN PRIVATE KEY-----\n" + secret + "\n-----END PRIVATE KEY-----\n"))
	require.ErrorIs(t, err, evidence.ErrKey)
	require.NotContains(t, fmt.Sprintf("%+v", err), secret)
	require.NotContains(t, fmt.Sprintf("%+v", err), "CANARY")
}
