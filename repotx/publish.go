package repotx

import (
	"context"
	"errors"
	"fmt"

	"github.com/rein-aharness/harness/evidence"
)

// Absent is the value of a ref that does not exist.
const Absent = ""

// Intent is one publication, complete: it is stored before anything is sent, and whoever settles it later needs nothing
// else. (A40)
type Intent struct {
	Run         string
	Transaction string
	Epoch       int64
	// Fence is what this epoch holds; the zero value only when fencing is waived.
	Fence Fence
	// TargetRef goes from Old (Absent when it must not exist yet) to Commit.
	TargetRef, Old, Commit string
	// BaseRef must still be at Base, the commit's parent, when it is not TargetRef itself.
	BaseRef, Base string
	// Pack holds the objects that the remote lacks; PackDigest is its "sha256:<hex>".
	Pack       []byte
	PackDigest string
}

// validate checks the intent by itself, and the pack against its digest.
func (in Intent) validate() error {
	if err := in.validateRefs(); err != nil {
		return err
	}
	if packDigest(in.Pack) != in.PackDigest {
		return errors.New("the pack is not the one of the intent")
	}
	return nil
}

func (in Intent) validateRefs() error {
	if ref, err := FenceRef(in.Run); err != nil || in.Fence.Value != "" && in.Fence.Ref != ref {
		return errors.Join(err, errors.New("the fence is not the run's"))
	}
	if err := errors.Join(checkBranch(in.TargetRef), checkBranch(in.BaseRef)); err != nil {
		return err
	}
	for _, hash := range []string{in.Commit, in.Base, orZero(in.Old), orZero(in.Fence.Value)} {
		if !isHash(hash) {
			return errors.New("a value of the intent is not a hash")
		}
	}
	if in.TargetRef == in.BaseRef && in.Old != in.Base || in.TargetRef != in.BaseRef && in.Old != Absent {
		return errors.New("the target is neither the base nor new")
	}
	return nil
}

// commands are the fence first, then the branch, then the base as part of the compare. Servers that crash between two
// updates apply them in this order, so a branch that moved implies a fence that moved. An update from a value to itself is a compare: git locks the ref, checks
// the old value and writes nothing. A host that refuses it refuses the whole request, and nothing has changed. Without a fence there is one command:
// a remote that cannot update several refs as one could take the branch and refuse the base.
func (in Intent) commands() []command {
	branch := command{in.TargetRef, in.Old, in.Commit}
	if in.Fence.Value == "" {
		return []command{branch}
	}
	commands := []command{{in.Fence.Ref, in.Fence.Value, in.Commit}, branch}
	if in.TargetRef != in.BaseRef {
		commands = append(commands, command{in.BaseRef, in.Base, in.Base})
	}
	return commands
}

// Publish sends the intent in one request, atomic unless fencing is waived. The error is for an intent that was not sent
// because it is not sound; whatever the remote or the network did is in the answer. A complete answer is confirmed only
// by ReadBack, and every other one is settled. The context must end with the lease. (A37, A39)
func (r *Remote) Publish(ctx context.Context, in Intent) (Answer, error) {
	if err := in.validate(); err != nil {
		return Answer{}, evidence.Fail(evidence.StageAccept, evidence.CodePublicationRefused, in.TargetRef, fmt.Errorf("intent: %w", err))
	}
	return r.push(ctx, in.commands(), in.Pack, in.Fence.Value != ""), nil
}

// Presence says whether a branch's history holds a commit.
type Presence string

// What can be known about it. Unseen is never guessed into one of the others.
const (
	Present Presence = "present"
	Missing Presence = "missing"
	Unseen  Presence = "unseen"
)

// Observation is what the push side of the remote shows of an intent.
type Observation struct {
	// Fence and Branch are the values of the two refs, "" when absent.
	Fence, Branch string
	// Commit says whether the branch's history holds the intended commit.
	Commit Presence
	// Unseen says why Commit is Unseen.
	Why error

	// descends says that the branch's history holds the commit's parent.
	descends bool
}

// Confirms reports whether the observation shows the intent as done: the branch holds the commit, and so does the fence
// unless fencing was waived.
func (o Observation) Confirms(in Intent) bool {
	return o.Commit == Present && (in.Fence.Value == "" || o.Fence == in.Commit)
}

// ReadBack looks at the remote's own refs, through the address that was pushed to. (A41)
func (r *Remote) ReadBack(ctx context.Context, in Intent) (Observation, error) {
	if err := in.validateRefs(); err != nil {
		return Observation{}, evidence.Fail(evidence.StageAccept, evidence.CodePublicationUnclear, in.TargetRef, fmt.Errorf("intent: %w", err))
	}
	o, err := r.observe(ctx, in)
	if err != nil {
		return Observation{}, classify(evidence.StageAccept, r.repo.ID, err)
	}
	return o, nil
}

func (r *Remote) observe(ctx context.Context, in Intent) (Observation, error) {
	adv, err := r.advertise(ctx, receivePack)
	if err != nil {
		return Observation{}, err
	}
	return r.see(ctx, in, adv), nil
}

func (r *Remote) see(ctx context.Context, in Intent, adv Advertisement) Observation {
	o := Observation{Fence: adv.Refs[fencePrefix+in.Run], Branch: adv.Refs[in.TargetRef]}
	switch o.Branch {
	case in.Commit:
		o.Commit, o.descends = Present, true
	case "":
		o.Commit = Missing
	case in.Base: // the commit's own parent cannot hold it
		o.Commit, o.descends = Missing, true
	default:
		past, err := r.history(ctx, o.Branch, in.Base, in.Commit)
		switch {
		case err != nil:
			o.Commit, o.Why = Unseen, err
		case past.holds:
			o.Commit, o.descends = Present, true
		default:
			o.Commit, o.descends = Missing, past.descends
		}
	}
	return o
}
