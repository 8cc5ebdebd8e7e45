package repotx

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

// past is what a branch's history was found to be, compared with a commit and the commit's parent.
type past struct {
	holds    bool // the commit
	descends bool // the parent
}

// history finds out whether a commit is in a branch's history. It asks for what is reachable from the tip and not from the
// commit's parent: the commit, being a child of that parent, is in there or nowhere. Trees and blobs are left out where the
// remote can. More than HistoryBytes is an error, not an answer.
func (r *Remote) history(ctx context.Context, tip, parent, commit string) (p past, err error) {
	err = r.fetchAside(ctx, request{want: tip, have: parent, filter: "tree:0"}, func(s *filesystem.Storage) error {
		switch err := s.HasEncodedObject(plumbing.NewHash(commit)); {
		case err == nil:
			p.holds = true
		case !errors.Is(err, plumbing.ErrObjectNotFound):
			return err
		}
		commits, err := s.IterEncodedObjects(plumbing.CommitObject)
		if err != nil {
			return err
		}
		return commits.ForEach(func(o plumbing.EncodedObject) error {
			if o.Hash().String() == parent { // a remote that did not know the parent sends it along
				p.descends = true
			}
			var c object.Commit
			if err := c.Decode(o); err != nil {
				return err
			}
			for _, h := range c.ParentHashes {
				p.descends = p.descends || h.String() == parent
			}
			return nil
		})
	})
	if err != nil {
		return past{}, fmt.Errorf("reading the history of %s: %w", tip, err)
	}
	return p, nil
}

// isFenceTag reports whether a value that nobody recorded is a fence's first value all the same: the run's own tag, whose
// worker died before it could say so.
func (r *Remote) isFenceTag(ctx context.Context, run, value string) (is bool, err error) {
	err = r.fetchAside(ctx, request{want: value, depth: 1, filter: "tree:0"}, func(s *filesystem.Storage) error {
		o, err := s.EncodedObject(plumbing.TagObject, plumbing.NewHash(value))
		if errors.Is(err, plumbing.ErrObjectNotFound) {
			return nil // something else than a tag
		}
		if err != nil {
			return err
		}
		var tag object.Tag
		if err := tag.Decode(o); err != nil {
			return err
		}
		is = tag.Name == fenceTagName+run && tag.Tagger.Name == harnessIdentity.Name
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("reading the fence %s: %w", value, err)
	}
	return is, nil
}

// fetchAside fetches into a folder that is gone on return.
func (r *Remote) fetchAside(ctx context.Context, q request, use func(*filesystem.Storage) error) (err error) {
	dir, err := os.MkdirTemp(r.store.cache.dir, tempPrefix)
	if err != nil {
		return err
	}
	lock, err := lockNow(filepath.Join(dir, lockName))
	if err != nil || lock == nil {
		return errors.Join(err, errors.New("the folder was taken by a sweep"), os.RemoveAll(dir))
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir), lock.Close()) }()
	storage := openStorage(dir)
	defer storage.Close()
	err = r.converse(ctx, r.store.config.Timeout, uploadPack, func(ctx context.Context, c conversation) error {
		return r.fetchInto(ctx, c, q, r.store.config.HistoryBytes, storage)
	})
	if err != nil {
		return err
	}
	return use(storage)
}
