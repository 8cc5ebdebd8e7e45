package rein

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"math"
	"sync"
	"unicode/utf8"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/internal/secretform"
	"github.com/rein-aharness/harness/rein/credential"
)

// DefaultLogBytes is the length a session log is bounded to when nothing else is said.
const DefaultLogBytes = 4 << 20

// logCut ends a log that was longer than its bound.
const logCut = "\n[session log cut here]\n"

// Log is the session log: what a session wrote to stdout and stderr, fit to be shown to an operator. Released values are
// masked in every form secretform knows, over the borders of writes, whole and line by line. Everything that does not show
// itself is escaped: terminal escapes, carriage returns, control, bidirectional and invisible characters, bytes that are no
// UTF-8. Newlines and tabs stay. What is beyond the bound is dropped, and the log says so. (CASES 19, 40, 41)
//
// It is safe for concurrent writes.
type Log struct {
	mu        sync.Mutex
	to        io.Writer
	left      int64
	masker    *secretform.Masker
	partial   []byte // the beginning of a character that a write has cut
	digest    hash.Hash
	length    int64
	truncated bool
	err       error
}

// NewLog begins a log of at most limit bytes (a cut one is longer by the line that says so), masking the given values.
func NewLog(to io.Writer, limit int64, values ...[]byte) *Log {
	matcher := secretform.NewMatcher(secretform.Forms(values...))
	return &Log{to: to, left: limit, masker: matcher.Masker(credential.Redacted), digest: sha256.New()}
}

// Write takes session output. It accepts all of it, also beyond the bound; its error is that of the writer beneath, for good.
func (l *Log) Write(output []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.put(l.masker.Add(nil, output), false); err != nil {
		return 0, err
	}
	return len(output), nil
}

// Close writes what was held back. It does not close the writer beneath.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.put(l.masker.End(nil), true)
}

// Kept is the length and the digest of the log as it was written, and whether it was cut.
func (l *Log) Kept() (length int64, digest string, truncated bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.length, "sha256:" + hex.EncodeToString(l.digest.Sum(nil)), l.truncated
}

func (l *Log) put(masked []byte, last bool) error {
	if l.err != nil || l.truncated {
		return l.err
	}
	text := append(l.partial, masked...)
	whole := len(text)
	if !last {
		whole -= cutCharacter(text)
	}
	escaped := escape(text[:whole])
	l.partial = bytes.Clone(text[whole:])
	if int64(len(escaped)) > l.left {
		escaped = append(bytes.ToValidUTF8(escaped[:l.left], nil), logCut...)
		l.truncated = true
	}
	l.left -= int64(len(escaped))
	n, err := l.to.Write(escaped)
	l.digest.Write(escaped[:n])
	l.length += int64(n)
	l.err = err
	return err
}

// cutCharacter is how many bytes at the end of text may be the beginning of one character.
func cutCharacter(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if last := text[len(text)-n:]; utf8.RuneStart(last[0]) {
			if utf8.FullRune(last) {
				return 0
			}
			return n
		}
	}
	return 0
}

// escape makes text fit to be shown, and leaves newlines and tabs.
func escape(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for len(text) > 0 {
		n := bytes.IndexAny(text, "\n\t")
		if n < 0 {
			return append(out, evidence.Clean(string(text), math.MaxInt)...)
		}
		out = append(out, evidence.Clean(string(text[:n]), math.MaxInt)...)
		out = append(out, text[n])
		text = text[n+1:]
	}
	return out
}
