package repotx

import (
	"bytes"
	"context"
	"io"
)

// What a line count may cost: larger files count as binary, as do files with a NUL near their start.
const (
	maxDiffBytes = 1 << 20
	maxDiffEdits = 2000
	binaryProbe  = 8000
)

// diffstat counts the lines that the change inserts and deletes in text files.
func (b *Baseline) diffstat(ctx context.Context, cs ChangeSet) (insertions, deletions int, err error) {
	for _, c := range cs.Changes {
		if ctx.Err() != nil {
			return 0, 0, context.Cause(ctx)
		}
		var before, after []byte
		if c.OldHash != "" {
			old := b.files[c.Path]
			if old.Size > maxDiffBytes {
				continue
			}
			if before, err = b.blob(old); err != nil {
				return 0, 0, err
			}
		}
		if c.Size > maxDiffBytes {
			continue
		}
		if c.NewHash != "" {
			if after, err = io.ReadAll(cs.content(c)); err != nil {
				return 0, 0, err
			}
		}
		if isBinary(before) || isBinary(after) {
			continue
		}
		ins, del := diffLines(splitLines(before), splitLines(after))
		insertions += ins
		deletions += del
	}
	return insertions, deletions, nil
}

func isBinary(data []byte) bool { return bytes.IndexByte(data[:min(len(data), binaryProbe)], 0) >= 0 }

func splitLines(data []byte) []string {
	var lines []string
	for len(data) > 0 {
		end := bytes.IndexByte(data, '\n') + 1
		if end == 0 {
			end = len(data)
		}
		lines = append(lines, string(data[:end]))
		data = data[end:]
	}
	return lines
}

// diffLines counts a shortest edit script with Myers' greedy algorithm. Past maxDiffEdits edits it counts the differing
// middle as rewritten, so that no content can make it slow.
func diffLines(a, b []string) (insertions, deletions int) {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	if len(a) == 0 || len(b) == 0 {
		return len(b), len(a)
	}
	limit := min(len(a)+len(b), maxDiffEdits)
	reach := make([]int, 2*limit+3) // furthest line of a on each diagonal
	for d := 0; d <= limit; d++ {
		for k := -d; k <= d; k += 2 {
			i := limit + 1 + k
			x := reach[i-1] + 1
			if k == -d || k != d && reach[i-1] < reach[i+1] {
				x = reach[i+1]
			}
			for x < len(a) && x-k < len(b) && x-k >= 0 && a[x] == b[x-k] {
				x++
			}
			reach[i] = x
			if x >= len(a) && x-k >= len(b) {
				// d edits in all, and they differ by what the lengths differ.
				return (d + len(b) - len(a)) / 2, (d - len(b) + len(a)) / 2
			}
		}
	}
	return len(b), len(a)
}
