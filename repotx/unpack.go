package repotx

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/storage/memory"
)

// CommitBytes reads the content of one commit, without git's header, out of a pack that Build made.
func CommitBytes(pack []byte, hash string) ([]byte, error) {
	store := memory.NewStorage()
	parser, err := packfile.NewParserWithStorage(packfile.NewScanner(bytes.NewReader(pack)), store)
	if err != nil {
		return nil, fmt.Errorf("repotx: open the stored pack: %w", err)
	}
	if _, err := parser.Parse(); err != nil {
		return nil, fmt.Errorf("repotx: read the stored pack: %w", err)
	}
	object, err := store.EncodedObject(plumbing.CommitObject, plumbing.NewHash(hash))
	if err != nil {
		return nil, fmt.Errorf("repotx: the stored pack lacks the commit %s: %w", hash, err)
	}
	r, err := object.Reader()
	if err != nil {
		return nil, fmt.Errorf("repotx: read the commit %s: %w", hash, err)
	}
	content, err := io.ReadAll(r)
	return content, errors.Join(err, r.Close())
}
