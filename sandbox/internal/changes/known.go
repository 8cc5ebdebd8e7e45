package changes

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Known is what the baseline holds under a path.
type Known struct {
	Mode uint32 // git mode: 0100644, 0100755 or 0120000
	Size int64  // bytes
	SHA1 string // git blob hash, 40 hex digits
}

// WriteKnown sends the baseline's files to the walk.
func WriteKnown(w io.Writer, known map[string]Known) error {
	bw := bufio.NewWriterSize(w, maxChunk)
	paths := make([]string, 0, len(known))
	for p := range known {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	for _, p := range paths {
		k := known[p]
		sum, err := hex.DecodeString(k.SHA1)
		if err != nil || len(sum) != 20 || k.Size < 0 || len(p) > maxPath {
			return fmt.Errorf("known file %q is not well-formed", p)
		}
		rec := binary.BigEndian.AppendUint32(nil, uint32(len(p))) //nolint:gosec // bounded above
		rec = append(rec, p...)
		rec = binary.BigEndian.AppendUint32(rec, k.Mode)
		rec = binary.BigEndian.AppendUint64(rec, uint64(k.Size)) //nolint:gosec // checked above
		if _, err := bw.Write(append(rec, sum...)); err != nil {
			return err
		}
	}
	return bw.Flush()
}

// ReadKnown is the other end of WriteKnown.
func ReadKnown(r io.Reader) (map[string]Known, error) {
	br := bufio.NewReaderSize(r, maxChunk)
	known := map[string]Known{}
	for {
		var size [4]byte
		if _, err := io.ReadFull(br, size[:]); err != nil {
			if errors.Is(err, io.EOF) {
				return known, nil
			}
			return nil, fmt.Errorf("known files: %w", err)
		}
		n := binary.BigEndian.Uint32(size[:])
		if n > maxPath {
			return nil, fmt.Errorf("known files: path of %d bytes", n)
		}
		rec := make([]byte, int(n)+4+8+20)
		if _, err := io.ReadFull(br, rec); err != nil {
			return nil, fmt.Errorf("known files: %w", err)
		}
		rest := rec[n:]
		known[string(rec[:n])] = Known{
			Mode: binary.BigEndian.Uint32(rest),
			Size: int64(binary.BigEndian.Uint64(rest[4:])), //nolint:gosec // written from an int64
			SHA1: hex.EncodeToString(rest[12:]),
		}
	}
}
