package repotx

import (
	"context"
	"fmt"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"github.com/rein-aharness/harness/evidence"
)

// Found is a commit at the remote that names a run by its trailers.
type Found struct {
	Commit, Tree, Parent string
	Transaction          string
	Profile              string // name@version#digest
	// Fenced says that the run's fence holds it too: it was published by whoever had the run's lease then.
	Fenced bool
}

// foundIn reads a commit that names the run, and nil from any other. The harness makes commits with one parent.
func foundIn(c object.Commit, run string) *Found {
	names, transaction, profile, ok := evidence.Trailers(c.Message)
	if !ok || names != run || len(c.ParentHashes) != 1 {
		return nil
	}
	return &Found{
		Commit: c.Hash.String(), Tree: c.TreeHash.String(), Parent: c.ParentHashes[0].String(), Transaction: transaction, Profile: profile,
	}
}

// Intent is what must have been intended for the commit to come about, without what only a record says.
func (f Found) Intent(run, targetRef, baseRef string) Intent {
	old := Absent
	if targetRef == baseRef {
		old = f.Parent
	}
	return Intent{
		Run: run, Transaction: f.Transaction, TargetRef: targetRef, Old: old, BaseRef: baseRef, Base: f.Parent, Commit: f.Commit,
	}
}

// judgeFound: the fence holds a commit that names the run, so it was published by an epoch of the run, at least in part.
func (r *Remote) judgeFound(ctx context.Context, in SettleInput, found Found, adv Advertisement) Settlement {
	found.Fenced = true
	intent := found.Intent(in.Run, in.TargetRef, in.BaseRef)
	s := judgeDone(intent, r.see(ctx, intent, adv))
	s.Found = &found
	return s
}

// judgeLost looks for what a run without records may have published, before its fence is believed to say that it was nothing: a fence
// is deleted after its retention. A commit on the branch that the fence does not hold as well could be anybody's, so it decides
// nothing; an operator does. decided is false when there is none.
func (r *Remote) judgeLost(ctx context.Context, in SettleInput, o Observation, adv Advertisement) (s Settlement, decided bool) {
	if o.Branch == "" || o.Branch == in.Baseline {
		return Settlement{}, false
	}
	found, err := r.search(ctx, in, o.Branch)
	switch {
	case err != nil:
		return unknown(ReasonHistoryUnread, o, err), true
	case found == nil || found.Profile != in.Profile:
		return Settlement{}, false
	case found.Commit == o.Fence:
		return r.judgeFound(ctx, in, *found, adv), true
	}
	s = unknown(ReasonRecordLost, o, nil)
	s.Found = found
	return s, true
}

// search looks in what the branch has beyond the baseline for a commit that names the run. nil when there is none.
func (r *Remote) search(ctx context.Context, in SettleInput, tip string) (found *Found, err error) {
	err = r.fetchAside(ctx, request{want: tip, have: in.Baseline, filter: "tree:0"}, func(s *filesystem.Storage) error {
		commits, err := s.IterEncodedObjects(plumbing.CommitObject)
		if err != nil {
			return err
		}
		return commits.ForEach(func(o plumbing.EncodedObject) error {
			var c object.Commit
			if err := c.Decode(o); err != nil {
				return err
			}
			if f := foundIn(c, in.Run); f != nil {
				found = f
			}
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("searching the history of %s: %w", tip, err)
	}
	return found, nil
}
