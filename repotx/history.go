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
// remote can. Nothing to send means that the tip is the parent or older. More than HistoryBytes is an error, not an answer.
func (r *Remote) history(ctx context.Context, tip, parent, commit string) (p past, err error) {
	err = r.fetchAside(ctx, request{want: tip, have: parent, filter: "tree:0"}, func(s *filesystem.Storage) error {
		// The tip was asked for. A store that lacks it says nothing about the rest.
		if there, err := hasObject(s, tip); err != nil || !there {
			return errors.Join(err, errors.New("the remote did not send the branch's tip"))
		}
		if p.holds, err = hasObject(s, commit); err != nil {
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

// origin says what an unrecorded value of a fence is.
type origin int

const (
	foreign    origin = iota // no object that the harness makes for this run
	openFence                // a first value: the run's own tag, whose worker died before it could record it
	closedTomb               // a tombstone of an epoch up to the one that asks
	landed                   // a commit that names the run
)

// identify reads the object behind a fence's value that no record names. Only objects that this package would make byte for
// byte are recognised, and commits by their trailers.
func (r *Remote) identify(ctx context.Context, run string, epoch int64, value string) (what origin, found *Found, err error) {
	err = r.fetchAside(ctx, request{want: value, depth: 1, filter: "tree:0"}, func(s *filesystem.Storage) error {
		o, err := s.EncodedObject(plumbing.AnyObject, plumbing.NewHash(value))
		if err != nil {
			return err
		}
		switch o.Type() {
		case plumbing.TagObject:
			var tag object.Tag
			if err := tag.Decode(o); err != nil {
				return err
			}
			if tag.Name == fenceTagName+run && tag.Tagger.Name == harnessIdentity.Name {
				what = openFence
			}
		case plumbing.CommitObject:
			var c object.Commit
			if err := c.Decode(o); err != nil {
				return err
			}
			var at int64
			_, err := fmt.Sscanf(c.Message, "Fence of run "+run+" closed by epoch %d\n", &at)
			if err == nil && at >= 1 && at <= epoch && TombstoneValue(run, at) == value {
				what = closedTomb
			}
			if found = foundIn(c, run); found != nil {
				what = landed
			}
		}
		return nil
	})
	if err != nil {
		return foreign, nil, fmt.Errorf("reading the fence %s: %w", value, err)
	}
	return what, found, nil
}

// fetchAside fetches into a folder that is gone on return. use is not called when the remote had nothing to send.
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
	var objects uint32
	err = r.converse(ctx, r.store.config.Timeout, uploadPack, func(ctx context.Context, c conversation) error {
		objects, err = r.fetchInto(ctx, c, q, r.store.config.HistoryBytes, dir)
		return err
	})
	if err != nil || objects == 0 {
		return err
	}
	storage := openStorage(dir)
	defer func() { err = errors.Join(err, storage.Close()) }()
	return use(storage)
}
