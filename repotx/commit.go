package repotx

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/rein-aharness/harness/evidence"
)

// Author is who a commit says wrote and committed it.
type Author struct {
	Name  string `json:"name"`
	Email string `json:"email"`
}

// Trailer is one line at the end of a commit's message.
type Trailer struct{ Key, Value string }

// The trailers of every accepted commit.
const (
	TrailerRun         = evidence.TrailerRun
	TrailerTransaction = evidence.TrailerTransaction
	TrailerProfile     = evidence.TrailerProfile
)

// Commit is a finished commit with exactly the objects that the remote lacks. Its bytes are kept with the intent and never
// made a second time. (A40)
type Commit struct {
	Hash, Tree string
	// Bytes is the commit object without git's header.
	Bytes []byte
	// Pack holds the commit and all new trees and blobs; PackDigest is its "sha256:<hex>".
	Pack       []byte
	PackDigest string
	// ChangedPaths are sorted; Insertions and Deletions count lines of text files.
	ChangedPaths          []string
	Insertions, Deletions int
}

// maxMessageBytes bounds a commit's message.
const maxMessageBytes = 64 << 10

var trailerKey = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,63}$`)

// Build makes the commit of a change, on top of the baseline and with when (to the second, UTC) as both dates: the same
// input gives the same bytes. It refuses an author, message or trailer that could add a header or forge a trailer with
// CodeCommitMalformed, and a pack over the bound with CodePackTooLarge. (A35, CASES 33)
func (b *Baseline) Build(ctx context.Context, cs ChangeSet, author Author, message string, trailers []Trailer, when time.Time) (*Commit, error) {
	if cs.Empty() {
		return nil, evidence.Fail(evidence.StageAccept, evidence.CodeCommitMalformed, "change", errors.New("an empty change makes no commit"))
	}
	text, err := commitText(author, message, trailers)
	if err != nil {
		return nil, evidence.Fail(evidence.StageAccept, evidence.CodeCommitMalformed, "message", err)
	}
	root, err := b.merge(cs)
	if err != nil {
		return nil, err
	}
	p := newPacker(b.packBytes)
	c := &Commit{}
	for _, change := range cs.Changes {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		c.ChangedPaths = append(c.ChangedPaths, change.Path)
		if change.Kind == Deleted {
			continue
		}
		there, err := b.holds(change.NewHash)
		if err != nil {
			return nil, fmt.Errorf("packing %q: %w", change.Path, err)
		}
		if there {
			continue
		}
		if err := p.stream(plumbing.BlobObject, change.NewHash, change.Size, cs.content(change)); err != nil {
			return nil, fmt.Errorf("packing %q: %w", change.Path, err)
		}
	}
	c.Tree, err = root.encode(func(kind plumbing.ObjectType, data []byte) (string, error) {
		hash := plumbing.ComputeHash(kind, data).String()
		if there, err := b.holds(hash); err != nil || there {
			return hash, err
		}
		return p.object(kind, data)
	})
	if err != nil {
		return nil, fmt.Errorf("building the tree: %w", err)
	}
	c.Bytes = encodeCommit(c.Tree, b.Commit, author, when, text)
	if c.Hash, err = p.object(plumbing.CommitObject, c.Bytes); err != nil {
		return nil, fmt.Errorf("building the commit: %w", err)
	}
	if c.Insertions, c.Deletions, err = b.diffstat(ctx, cs); err != nil {
		return nil, fmt.Errorf("counting lines: %w", err)
	}
	c.Pack, c.PackDigest = p.finish()
	if int64(len(c.Pack)) > b.packBytes {
		return nil, evidence.Fail(evidence.StageAccept, evidence.CodePackTooLarge, "pack", nil)
	}
	return c, nil
}

// encodeCommit writes a commit object. parent is "" for a commit without one.
func encodeCommit(tree, parent string, author Author, when time.Time, text string) []byte {
	var buf bytes.Buffer
	fmt.Fprintf(&buf, "tree %s\n", tree)
	if parent != "" {
		fmt.Fprintf(&buf, "parent %s\n", parent)
	}
	fmt.Fprintf(&buf, "author %s <%s> %d +0000\n", author.Name, author.Email, when.Unix())
	fmt.Fprintf(&buf, "committer %s <%s> %d +0000\n", author.Name, author.Email, when.Unix())
	fmt.Fprintf(&buf, "\n%s", text)
	return buf.Bytes()
}

// commitText puts message and trailers together. The trailers are a paragraph of their own, and no line of the message may
// look like one of the harness's.
func commitText(author Author, message string, trailers []Trailer) (string, error) {
	for what, s := range map[string]string{"author name": author.Name, "author address": author.Email} {
		if err := plainLine(s); err != nil {
			return "", fmt.Errorf("%s: %w", what, err)
		}
		if strings.ContainsAny(s, "<>") || strings.Trim(s, " .,:;\"'\\") != s {
			return "", fmt.Errorf("%s: git would strip a part of it", what)
		}
	}
	message = strings.Trim(message, "\n")
	switch {
	case strings.TrimSpace(message) == "":
		return "", errors.New("empty message")
	case len(message) > maxMessageBytes:
		return "", fmt.Errorf("message is longer than %d bytes", maxMessageBytes)
	}
	for line := range strings.SplitSeq(message, "\n") {
		if line == "" {
			continue
		}
		if err := plainLine(strings.ReplaceAll(line, "\t", " ")); err != nil {
			return "", fmt.Errorf("message: %w", err)
		}
		if key, _, ok := strings.Cut(line, ":"); ok && strings.HasPrefix(strings.ToLower(strings.TrimSpace(key)), "harness-") {
			return "", errors.New("message: a line looks like a trailer of the harness")
		}
	}
	var buf strings.Builder
	buf.WriteString(message + "\n")
	for i, t := range trailers {
		if err := plainLine(t.Value); err != nil || !trailerKey.MatchString(t.Key) {
			return "", fmt.Errorf("trailer %q: not one plain line", t.Key)
		}
		if i == 0 {
			buf.WriteString("\n")
		}
		fmt.Fprintf(&buf, "%s: %s\n", t.Key, t.Value)
	}
	return buf.String(), nil
}

// plainLine accepts one non-empty line without control characters.
func plainLine(s string) error {
	if strings.TrimSpace(s) == "" || !utf8.ValidString(s) || len(s) > maxMessageBytes {
		return errors.New("empty, too long or not UTF-8")
	}
	for _, r := range s {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Bidi_Control, r) {
			return errors.New("holds a control character")
		}
	}
	return nil
}
