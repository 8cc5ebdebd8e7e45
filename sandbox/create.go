package sandbox

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/sandbox/internal/guest"
	"github.com/rein-aharness/harness/sandbox/internal/wire"
)

// Create makes one sandbox and hands it out only after its posture was observed and agrees with what spec declares. Whatever fails
// on the way, the container is torn down before Create returns. ctx bounds the creation alone, not the sandbox's life.
func (v *Venue) Create(ctx context.Context, spec Spec, id Identity) (_ *Sandbox, err error) {
	if err := id.validate(); err != nil {
		return nil, err
	}
	env, err := v.check(ctx, v.info, spec)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, v.cfg.Start)
	defer cancel()
	failed := func(what string, err error) error {
		var f *evidence.Failure
		if errors.As(err, &f) {
			return err
		}
		return evidence.Fail(evidence.StageSandbox, evidence.CodeSandboxCreateFailed, what, err)
	}
	if err := v.ensureInit(ctx); err != nil {
		return nil, failed("init volume", err)
	}
	cfg, host := v.containerOf(spec, id, env)
	name := sessionPrefix + id.Run + "-" + strconv.FormatInt(id.Epoch, 10)
	created, err := v.docker.ContainerCreate(ctx, cfg, host, nil, nil, name)
	if err != nil {
		return nil, failed("create", err)
	}
	s := &Sandbox{venue: v, spec: spec, id: id, container: created.ID, env: sessionEnv(env)}
	defer func() {
		if err == nil {
			return
		}
		// A fresh context: the one that was given may be why we are here. (A26)
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		if _, derr := s.Destroy(clean); derr != nil {
			err = errors.Join(err, derr)
		}
	}()
	attached, err := v.docker.ContainerAttach(ctx, created.ID, container.AttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true})
	if err != nil {
		return nil, failed("attach", err)
	}
	conn := attach(attached)
	if err := v.docker.ContainerStart(ctx, created.ID, container.StartOptions{}); err != nil {
		return nil, failed("start", errors.Join(err, conn.Close()))
	}
	// Only now: keepalives must not run against a container that an engine under load has yet to start.
	if s.wire, err = dial(conn, v.cfg.Keepalive); err != nil {
		return nil, failed("wire", err)
	}
	if err := s.hello(ctx); err != nil {
		return nil, failed("handshake", s.wire.explain(err))
	}
	if err := s.observe(ctx); err != nil {
		return nil, failed("observe", err)
	}
	return s, nil
}

// hello is the first thing said on the wire: it returns when the init serves.
func (s *Sandbox) hello(ctx context.Context) error {
	res, err := s.wire.call(ctx, wire.Req{Op: wire.OpHello}, nil)
	if err != nil {
		return err
	}
	if res.Version != wire.Version {
		return fmt.Errorf("the init speaks version %d, not %d", res.Version, wire.Version)
	}
	return nil
}

// sessionEnv is the base of every command's environment: what the image declares, and where the writable places are.
func sessionEnv(imageEnv []string) []string {
	return mergeEnv([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, imageEnv,
		[]string{"HOME=" + Home, "USER=agent", "TMPDIR=" + guest.Tmp})
}
