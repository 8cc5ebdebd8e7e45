package repotx

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Digest identifies the change: which paths differ from the baseline, and how. Paths are raw bytes, so each field is written
// with its length.
func (cs ChangeSet) Digest() string {
	h := sha256.New()
	for _, c := range cs.Changes {
		for _, field := range []string{
			c.Path, string(c.Kind), fmt.Sprintf("%o", c.OldMode), c.OldHash, fmt.Sprintf("%o", c.NewMode), c.NewHash,
		} {
			fmt.Fprintf(h, "%d:%s,", len(field), field)
		}
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}
