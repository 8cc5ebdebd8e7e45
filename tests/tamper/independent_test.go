package tamper_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
)

// A20: whoever knows DSSE, in-toto and Ed25519 verifies a run with nothing of the harness: the signature over the statement, the
// commit it is about, and every digest and link of the chain it covers.
func TestSomebodyElseVerifiesTheStatement(t *testing.T) {
	t.Parallel()
	l := land(t)
	data, err := os.ReadFile(l.Stack.Vault.SigningKeyFile)
	require.NoError(t, err)
	block, _ := pem.Decode(data)
	require.NotNil(t, block)
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	require.NoError(t, err)

	var envelope struct {
		PayloadType string
		Payload     []byte // base64 in JSON
		Signatures  []struct {
			KeyID string
			Sig   []byte
		}
	}
	require.NoError(t, json.Unmarshal(l.run.Statement, &envelope))
	require.Equal(t, "application/vnd.in-toto+json", envelope.PayloadType)
	signed := fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(envelope.PayloadType), envelope.PayloadType, len(envelope.Payload), envelope.Payload)
	require.Len(t, envelope.Signatures, 1)
	require.True(t, ed25519.Verify(key.(ed25519.PublicKey), signed, envelope.Signatures[0].Sig))

	var statement struct {
		Type    string `json:"_type"`
		Subject []struct {
			Name   string
			Digest map[string]string
		}
		PredicateType string
		Predicate     struct {
			Run, Head, Commit string
			Facts             int
		}
	}
	require.NoError(t, json.Unmarshal(envelope.Payload, &statement))
	require.Equal(t, "https://in-toto.io/Statement/v1", statement.Type)
	require.Len(t, statement.Subject, 1)
	require.Equal(t, map[string]string{"gitCommit": l.repo.Ref(t, trunk)}, statement.Subject[0].Digest)
	require.Equal(t, l.run.ID, statement.Predicate.Run)

	previous := ""
	for _, f := range l.facts {
		raw := stored(t, f)
		var fact struct{ Prev, Digest string }
		require.NoError(t, json.Unmarshal(raw, &fact))
		require.Equal(t, previous, fact.Prev)
		without := bytes.Replace(raw, fmt.Appendf(nil, `"digest":%q`, fact.Digest), []byte(`"digest":""`), 1)
		sum := sha256.Sum256(append([]byte(evidence.DomainFact+"\n"), without...))
		require.Equal(t, "sha256:"+hex.EncodeToString(sum[:]), fact.Digest)
		previous = fact.Digest
	}
	require.Equal(t, statement.Predicate.Facts, len(l.facts))
	require.Equal(t, statement.Predicate.Head, previous)
}
