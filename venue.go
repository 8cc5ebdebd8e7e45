package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/rein"
	"github.com/rein-aharness/harness/rein/credential"
	"github.com/rein-aharness/harness/repotx"
	"github.com/rein-aharness/harness/sandbox"
)

// venue is where one session runs: its sandbox, its credentials, and what came out of it.
type venue struct {
	x *execution

	box       *sandbox.Sandbox
	session   *credential.Session
	materials []credential.Material
	quiesced  bool
	changes   *repotx.ChangeSet // of a capture that succeeded
}

// teardownWithin bounds a teardown, which goes on when the run's own context has ended.
const teardownWithin = 60 * time.Second

// work takes the run from the sandbox to the captured change.
func (v *venue) work(ctx context.Context) error {
	for _, s := range []struct {
		stage evidence.Stage
		do    func(context.Context) error
	}{
		{evidence.StageSandbox, v.create},
		{evidence.StageSession, v.run},
		{evidence.StageCapture, v.capture},
	} {
		if err := v.x.stage(ctx, s.stage, func(ctx context.Context) error { return v.conceal(s.do(ctx)) }); err != nil {
			return err
		}
	}
	return nil
}

// conceal takes out of a failure what was released to the session: it may have named a file after its credential. (A28)
func (v *venue) conceal(err error) error {
	if v.session == nil {
		return err
	}
	return v.session.Conceal(err)
}

// create starts the sandbox and, beside it, creates the fence: neither waits for the other, and neither is used before both
// exist. Before either, everything that was pinned is compared once more.
func (v *venue) create(ctx context.Context) error {
	x := v.x
	if err := x.recheck(ctx, evidence.StageSandbox); err != nil {
		return err
	}
	both, begin := errgroup.WithContext(ctx)
	both.Go(func() error { return x.raiseFence(begin) })
	both.Go(func() (err error) {
		v.box, err = x.h.venue.Create(begin, x.profile.Sandbox, sandbox.Identity{
			Run: x.run.ID, Epoch: x.lease.Epoch(), Owner: x.lease.Owner(), Actor: evidence.ActorAgent,
			ExpiresAt: x.h.store.Now().Add(time.Duration(x.profile.Sandbox.TTLSeconds) * time.Second),
		})
		return err
	})
	if err := both.Wait(); err != nil {
		return err
	}
	return x.lease.Record(evidence.StageSandbox, evidence.SourceObserved, v.box.Evidence())
}

// run acquires the session's credentials, streams the baseline in, and lets the rein work. (A30, A31)
func (v *venue) run(ctx context.Context) error {
	x := v.x
	both, prepare := errgroup.WithContext(ctx)
	both.Go(func() error { return v.acquire(prepare) })
	both.Go(func() error { return v.fill(prepare) })
	if err := both.Wait(); err != nil {
		return err
	}
	log := newLogWriter(ctx, x.lease)
	ended, err := rein.Run(ctx, v.box, rein.Session{
		Run: x.run.ID, Spec: x.profile.Rein, Model: x.profile.Model, Tools: x.profile.Tools, Task: x.contract.Request.Task,
		Materials: v.materials, LogBytes: min(x.profile.Limits.LogBytes, x.h.config.Retention.SessionLogBytes),
	}, log)
	err = errors.Join(err, log.Close())
	if v.session != nil {
		ended.Credentials = v.session.Evidence()
	}
	return errors.Join(x.lease.Record(evidence.StageSession, evidence.SourceReported, ended), err)
}

func (v *venue) acquire(ctx context.Context) error {
	x := v.x
	if len(x.profile.Credentials) == 0 {
		return nil
	}
	holder := credential.Holder{Run: x.run.ID, Epoch: x.lease.Epoch(), Owner: x.lease.Owner(), Purpose: credential.PurposeSession}
	session, err := x.h.vault.Begin(ctx, holder, x.profile.SessionPolicies(), x.profile.SessionTTL(), x.lease)
	if err != nil {
		return err
	}
	v.session = session
	for _, route := range x.profile.Credentials {
		material, err := session.Read(ctx, route)
		if err != nil {
			return err
		}
		v.materials = append(v.materials, material)
	}
	return nil
}

// fill streams the baseline's files into the workspace, from objects to the wire; nothing is written on this machine.
func (v *venue) fill(ctx context.Context) error {
	r, w := io.Pipe()
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error {
		err := v.x.baseline.WriteTar(ctx, w)
		_ = w.CloseWithError(err)
		return err
	})
	both.Go(func() error {
		err := v.box.Unpack(ctx, r)
		_ = r.CloseWithError(err)
		return err
	})
	return both.Wait()
}

// capture ends every process of the session, and then takes what it left as data. (A34)
func (v *venue) capture(ctx context.Context) error {
	x := v.x
	if err := v.box.Quiesce(ctx); err != nil {
		return err
	}
	v.quiesced = true
	limits := x.profile.Limits
	collector, err := repotx.NewCollector(x.baseline, repotx.Limits{
		Files: limits.ChangeEntries, Bytes: limits.ChangeBytes, FileBytes: limits.ChangeFileBytes,
	})
	if err != nil {
		return err
	}
	var entries int
	var bytes int64
	err = v.box.Capture(ctx, sandbox.Bounds{
		Entries: limits.ChangeEntries, Bytes: limits.ChangeBytes, FileBytes: limits.ChangeFileBytes,
		Depth: limits.ChangeDepth, PathBytes: limits.ChangePathBytes,
	}, known(x.baseline), func(e sandbox.Entry) error {
		entries++
		bytes += e.Size
		return collect(collector, e)
	})
	if err != nil {
		return errors.Join(err, collector.Discard())
	}
	changes, err := collector.Finish()
	if err != nil {
		return errors.Join(err, collector.Discard())
	}
	v.changes = &changes
	if v.session != nil {
		if err := repotx.ScanSecrets(ctx, changes, v.session.Values()); err != nil {
			return err
		}
	}
	return x.lease.Record(evidence.StageCapture, evidence.SourceReported, evidence.Captured{
		Entries: entries, Bytes: bytes, Added: changes.Count(repotx.Added), Modified: changes.Count(repotx.Modified),
		Deleted: changes.Count(repotx.Deleted), Ignored: changes.Ignored, Digest: changes.Digest(),
	})
}

// known is what the baseline has, in the sandbox's words.
func known(b *repotx.Baseline) map[string]sandbox.Known {
	files := b.Known()
	out := make(map[string]sandbox.Known, len(files))
	for path, k := range files {
		out[path] = sandbox.Known{Mode: k.Mode, Size: k.Size, SHA1: k.SHA1}
	}
	return out
}

// collect hands one entry of the workspace to the collector of the change.
func collect(c *repotx.Collector, e sandbox.Entry) error {
	switch {
	case e.Same:
		return c.Same(e.Path)
	case e.Kind == sandbox.KindSymlink:
		return c.Add(e.Path, repotx.ModeSymlink, int64(len(e.Target)), strings.NewReader(e.Target))
	case e.Kind == sandbox.KindExec:
		return c.Add(e.Path, repotx.ModeExec, e.Size, e.Content)
	default:
		return c.Add(e.Path, repotx.ModeFile, e.Size, e.Content)
	}
}

// close frees what was captured.
func (v *venue) close() error {
	if v.changes == nil {
		return nil
	}
	return v.changes.Close()
}

// teardown revokes the session's credentials, destroys the sandbox and sees that both are gone. It goes on when the run's
// context has ended, and its failure refuses acceptance. (A26, A30)
func (v *venue) teardown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), teardownWithin)
	defer cancel()
	fact := evidence.TornDown{Quiesced: v.quiesced}
	var errs []error
	if v.session != nil {
		if err := v.session.Revoke(ctx); err != nil {
			errs = append(errs, err)
			fact.TokensLeft = 1
		} else {
			fact.TokensRevoked = 1
		}
		v.session.Wipe()
	}
	var err error
	if fact.ContainerGone, fact.VolumesGone, err = v.destroy(ctx); err != nil {
		errs = append(errs, evidence.Fail(evidence.StageTeardown, evidence.CodeTeardownFailed, "sandbox", err))
	}
	if err := v.x.lease.Record(evidence.StageTeardown, evidence.SourceObserved, fact); err != nil {
		errs = append(errs, err)
	}
	if len(errs) == 0 && !fact.Clean() {
		errs = append(errs, evidence.Fail(evidence.StageTeardown, evidence.CodeTeardownFailed, "sandbox", fmt.Errorf("%+v", fact)))
	}
	return errors.Join(errs...)
}

// destroy ends the sandbox and sees that it is gone. One that was not handed out was removed by whoever failed to create it; that
// nothing is left of it is looked for on the engine, and not assumed.
func (v *venue) destroy(ctx context.Context) (containerGone, volumesGone bool, err error) {
	if v.box != nil {
		gone, err := v.box.Destroy(ctx)
		return gone.ContainerGone, gone.VolumesGone, err
	}
	x := v.x
	err = x.h.sweepSandboxes(ctx, x.run.ID, func(epoch int64) bool { return epoch == x.lease.Epoch() })
	return err == nil, err == nil, err
}
