package repotx

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/rein-aharness/harness/evidence"
)

// FenceID is the lease that a fence belongs to. The owner is the worker's name with its process's nonce, so no two leases
// share a fence. (A36)
type FenceID struct {
	Run   string
	Epoch int64
	Owner string
}

// Fence is one value of a run's fence ref, known before it is set, so that it can be recorded first. The zero value is the
// absence of a fence, where fencing is waived.
type Fence struct {
	// Ref is the full name of the ref, Value the hash that the holder sets.
	Ref, Value string

	tag []byte // the object behind Value; nil when the fence was read from a record
}

// harnessIdentity signs the objects that only the fence points at.
var harnessIdentity = Author{Name: "harness", Email: "harness@localhost"}

const (
	emptyTree    = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
	fenceTagName = "harness-fence-"
)

// NewFence makes the fence of a lease: an annotated tag of the baseline. The owner's name stays out of the remote; its
// digest is enough to make the value unique.
func NewFence(id FenceID, baseline string) (Fence, error) {
	ref, err := FenceRef(id.Run)
	if err == nil && (id.Epoch < 1 || id.Owner == "" || !isHash(baseline)) {
		err = errors.New("a fence needs an epoch, an owner and a baseline")
	}
	if err != nil {
		return Fence{}, evidence.Fail(evidence.StagePreflight, evidence.CodeFenceConflict, id.Run, err)
	}
	holder := sha256.Sum256([]byte(id.Owner))
	var buf bytes.Buffer
	fmt.Fprintf(&buf, "object %s\ntype commit\ntag %s%s\ntagger %s <%s> 0 +0000\n\nepoch %d\nholder %s\n",
		baseline, fenceTagName, id.Run, harnessIdentity.Name, harnessIdentity.Email, id.Epoch, hex.EncodeToString(holder[:]))
	return Fence{Ref: ref, Value: plumbing.ComputeHash(plumbing.TagObject, buf.Bytes()).String(), tag: buf.Bytes()}, nil
}

// tombstone is the object that closes a run's fence for all epochs below: a parentless commit of the empty tree.
func tombstone(run string, epoch int64) []byte {
	return encodeCommit(emptyTree, "", harnessIdentity, time.Unix(0, 0), fmt.Sprintf("Fence of run %s closed by epoch %d\n", run, epoch))
}

// TombstoneValue is the hash of the tombstone that an epoch of a run sets.
func TombstoneValue(run string, epoch int64) string {
	return plumbing.ComputeHash(plumbing.CommitObject, tombstone(run, epoch)).String()
}

// recentEpochs bounds how many tombstones are computed to recognise one. Epochs rise by one a lease, except when a restored
// database is adopted; what is older than that is recognised by its content.
const recentEpochs = 256

// isTombstone reports whether the value is the tombstone of a recent epoch up to the given one.
func isTombstone(run string, epoch int64, value string) bool {
	for e := epoch; e >= 1 && e > epoch-recentEpochs; e-- {
		if TombstoneValue(run, e) == value {
			return true
		}
	}
	return false
}

// CreateFence sets the run's fence for the first time. A fence that exists already is CodeFenceConflict and is never adopted,
// unless it is exactly this lease's own. An answer that does not say what happened is CodePublicationUnclear; Settle decides
// then. A remote that can no longer be fenced is CodeRemoteUnsupported.
func (r *Remote) CreateFence(ctx context.Context, f Fence) error {
	return r.setFence(ctx, "", f)
}

// MoveFence takes the fence over for an epoch that only publishes: from the value of an earlier epoch of the run to its own.
func (r *Remote) MoveFence(ctx context.Context, from string, f Fence) error {
	if !isHash(from) {
		return evidence.Fail(evidence.StagePreflight, evidence.CodeFenceConflict, f.Ref, errors.New("no value to move the fence from"))
	}
	return r.setFence(ctx, from, f)
}

func (r *Remote) setFence(ctx context.Context, from string, f Fence) error {
	fail := func(code evidence.Code, err error) error {
		return evidence.Fail(evidence.StagePreflight, code, f.Ref, err)
	}
	if f.tag == nil {
		return fail(evidence.CodeFenceConflict, errors.New("only the lease that made a fence may set it"))
	}
	p := newPacker(r.store.config.PackBytes)
	if _, err := p.object(plumbing.TagObject, f.tag); err != nil {
		return fail(evidence.CodePackTooLarge, err)
	}
	pack, _ := p.finish()
	answer := r.push(ctx, []command{{f.Ref, from, f.Value}}, pack, true)
	if answer.Complete() {
		return nil
	}
	adv, err := r.Advertise(ctx)
	if err != nil {
		return errors.Join(err, answer.Fault())
	}
	switch adv.Refs[f.Ref] {
	case f.Value:
		return nil
	case from:
		if answer.Sent && answer.Unpack == "" {
			return fail(evidence.CodePublicationUnclear, answer.Fault())
		}
		if err := adv.RequireFence(); err != nil { // it could when the preflight asked
			return errors.Join(err, answer.Fault())
		}
		return classify(evidence.StagePreflight, f.Ref, answer.Fault())
	default:
		return fail(evidence.CodeFenceConflict, answer.Fault())
	}
}

// closeFence moves the fence from a value ("" when absent) to the tombstone of the epoch. Only the next look at the remote
// says whether it did.
func (r *Remote) closeFence(ctx context.Context, run, from string, epoch int64) (Answer, error) {
	p := newPacker(r.store.config.PackBytes)
	if _, err := p.object(plumbing.TreeObject, nil); err != nil {
		return Answer{}, err
	}
	value, err := p.object(plumbing.CommitObject, tombstone(run, epoch))
	if err != nil {
		return Answer{}, err
	}
	pack, _ := p.finish()
	return r.push(ctx, []command{{fencePrefix + run, from, value}}, pack, false), nil
}

// DeleteFence removes a fence at the end of its retention, if it still has the given value. A fence that is gone already is
// no error; one with another value is CodeFenceConflict.
func (r *Remote) DeleteFence(ctx context.Context, run, value string) error {
	ref, err := FenceRef(run)
	if err != nil || !isHash(value) {
		return evidence.Fail(evidence.StageReconcile, evidence.CodeFenceConflict, run, errors.Join(err, errors.New("no fence to delete")))
	}
	answer := r.push(ctx, []command{{ref, value, ""}}, nil, false)
	if answer.Complete() {
		return nil
	}
	adv, err := r.advertise(ctx, receivePack)
	if err != nil {
		return classify(evidence.StageReconcile, ref, errors.Join(err, answer.Fault()))
	}
	switch adv.Refs[ref] {
	case "":
		return nil
	case value:
		return classify(evidence.StageReconcile, ref, answer.Fault())
	default:
		return evidence.Fail(evidence.StageReconcile, evidence.CodeFenceConflict, ref, answer.Fault())
	}
}
