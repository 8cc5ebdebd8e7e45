package stack

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
)

// TrustFile is the content of a trust file that trusts the stack's signing key.
func (v Vault) TrustFile() (string, error) {
	data, err := os.ReadFile(v.SigningKeyFile)
	if err != nil {
		return "", err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return "", errors.New("the public signing key is not PEM")
	}
	sum := sha256.Sum256(block.Bytes)
	return fmt.Sprintf("keys:\n- key_id: sha256:%s\n  public_key: %s\n  not_before: \"2020-01-01T00:00:00Z\"\n",
		hex.EncodeToString(sum[:]), base64.StdEncoding.EncodeToString(block.Bytes)), nil
}
