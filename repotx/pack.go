package repotx

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/rein-aharness/harness/evidence"
)

// packer writes a pack of whole objects, in the order given, held in memory and bounded. Commits are small, so deltas
// would cost more time than they save bytes.
type packer struct {
	buf   bytes.Buffer
	limit int64
	count uint32
	held  map[string]bool
}

func newPacker(limit int64) *packer {
	p := &packer{limit: limit, held: map[string]bool{}}
	p.buf.WriteString("PACK")
	p.buf.Write([]byte{0, 0, 0, 2, 0, 0, 0, 0}) // version 2; the count is filled in at the end
	return p
}

// object adds an object held in memory and returns its hash.
func (p *packer) object(kind plumbing.ObjectType, data []byte) (string, error) {
	hash := plumbing.ComputeHash(kind, data).String()
	return hash, p.stream(kind, hash, int64(len(data)), bytes.NewReader(data))
}

// stream adds an object once; a second time it does nothing.
func (p *packer) stream(kind plumbing.ObjectType, hash string, size int64, content io.Reader) error {
	if p.held[hash] {
		return nil
	}
	p.held[hash] = true
	p.count++
	header := byte(kind)<<4 | byte(size&0x0f)
	for rest := size >> 4; ; rest >>= 7 {
		if rest == 0 {
			p.buf.WriteByte(header)
			break
		}
		p.buf.WriteByte(header | 0x80)
		header = byte(rest & 0x7f)
	}
	z := zlib.NewWriter(limitedBuffer{p})
	n, err := io.Copy(z, content)
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		return err
	}
	if n != size {
		return fmt.Errorf("object %s has %d bytes, not %d", hash, n, size)
	}
	return nil
}

// limitedBuffer fails the write that would take the pack over its limit.
type limitedBuffer struct{ *packer }

func (l limitedBuffer) Write(data []byte) (int, error) {
	if int64(l.buf.Len()+len(data)+sha1.Size) > l.limit {
		return 0, evidence.Fail(evidence.StageAccept, evidence.CodePackTooLarge, "pack", fmt.Errorf("more than %d bytes", l.limit))
	}
	return l.buf.Write(data)
}

// finish returns the pack and its digest, "sha256:<hex>". The packer is used up.
func (p *packer) finish() (pack []byte, digest string) {
	pack = p.buf.Bytes()
	binary.BigEndian.PutUint32(pack[8:], p.count)
	sum := sha1.Sum(pack) // the format's own checksum, against accidents only
	pack = append(pack, sum[:]...)
	return pack, packDigest(pack)
}

func packDigest(pack []byte) string {
	sum := sha256.Sum256(pack)
	return "sha256:" + hex.EncodeToString(sum[:])
}
