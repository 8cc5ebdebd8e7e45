package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/sandbox/internal/guest"
	"github.com/rein-aharness/harness/sandbox/internal/wire"
)

// Sandbox is one running container with its wire. Its methods may be called from several goroutines; Capture ends what a session may
// do in it, Destroy ends it.
type Sandbox struct {
	venue     *Venue
	spec      Spec
	id        Identity
	container string
	env       []string // base of every command's environment
	wire      *link    // nil until attached

	posture  posture
	output   atomic.Int64 // bytes that all commands have written
	sealed   atomic.Bool  // after a capture began, nothing is started any more
	quiesced atomic.Bool
	torn     sync.Mutex
}

// Places inside every sandbox.
const (
	Workspace = guest.Workspace
	Home      = guest.Home
	RunDir    = guest.RunDir // credentials and the task; PutFile writes here
)

// ID returns the container's id.
func (s *Sandbox) ID() string { return s.container }

// Lost is closed when the wire is gone, and the sandbox with it: PID 1 ended early, or the engine did.
func (s *Sandbox) Lost() <-chan struct{} { return s.wire.lost() }

// failure gives err the code that the state of things calls for: a lost wire is sandbox_lost, whatever it did to the call. (A43)
func (s *Sandbox) failure(ctx context.Context, stage evidence.Stage, code evidence.Code, subject string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("sandbox: %s: %w", subject, context.Cause(ctx))
	}
	select {
	case <-s.Lost():
		return evidence.Fail(stage, evidence.CodeSandboxLost, subject, s.wire.explain(err))
	default:
	}
	if errors.Is(err, wire.ErrMalformed) {
		code = evidence.CodeStreamMalformed
	}
	return evidence.Fail(stage, code, subject, err)
}

// PutFile writes one file into RunDir as the session's user, for a credential or the task: bounded to 1 MiB, in memory, gone with
// the container. name is RunDir plus one segment; an existing name is refused.
func (s *Sandbox) PutFile(ctx context.Context, name string, mode fs.FileMode, data []byte) error {
	if path.Dir(name) != RunDir || path.Clean(name) != name || mode&^fs.ModePerm != 0 || !utf8.ValidString(name) || len(data) > guest.MaxPut {
		return evidence.Fail(evidence.StageSession, evidence.CodeSessionStartFailed, name,
			fmt.Errorf("a file goes directly into %s, with permission bits alone and at most %d bytes", RunDir, guest.MaxPut))
	}
	if data == nil {
		data = []byte{}
	}
	_, err := s.wire.call(ctx, wire.Req{Op: wire.OpPut, Put: &wire.Put{Name: path.Base(name), Mode: uint32(mode)}}, data)
	if err != nil {
		return s.failure(ctx, evidence.StageSession, evidence.CodeSessionStartFailed, name, err)
	}
	return nil
}

// Quiesce ends every process but the init, and returns when none is left. What cannot be ended within a bound is
// session_not_quiescent.
func (s *Sandbox) Quiesce(ctx context.Context) error { return s.quiesce(ctx, false) }

func (s *Sandbox) quiesce(ctx context.Context, seal bool) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	res, err := s.wire.call(ctx, wire.Req{Op: wire.OpQuiesce, Seal: seal}, nil)
	if err != nil {
		return s.failure(ctx, evidence.StageCapture, evidence.CodeSessionNotQuiescent, fmt.Sprintf("%d processes left", res.Left), err)
	}
	s.quiesced.Store(true)
	return nil
}

// Destroy ends the sandbox and returns when the engine no longer knows the container. It may be called again, and after any
// failure. The writable mounts are the container's own memory, so they are gone with it. (A25, A26)
func (s *Sandbox) Destroy(ctx context.Context) (evidence.TornDown, error) {
	s.torn.Lock()
	defer s.torn.Unlock()
	s.sealed.Store(true)
	torn := evidence.TornDown{Quiesced: s.quiesced.Load()}
	if s.wire != nil {
		s.wire.close()
		// The init ends by itself now and the engine removes what is left. Forcing it at the same time can wedge the engine's shim for
		// half a minute: seen under gVisor, with the host processes of many guest processes ending at once.
		if s.venue.goneWithin(ctx, s.container, endsByItself) {
			torn.ContainerGone, torn.VolumesGone = true, true
			return torn, nil
		}
	}
	if err := s.venue.remove(ctx, s.container); err != nil {
		return torn, evidence.Fail(evidence.StageTeardown, evidence.CodeTeardownFailed, s.container, err)
	}
	torn.ContainerGone, torn.VolumesGone = true, true
	return torn, nil
}

// endsByItself is how long a container may take to end after its wire before it is forced.
const endsByItself = 5 * time.Second

// goneWithin watches until the engine no longer knows the container. When it cannot tell, it says no.
func (v *Venue) goneWithin(ctx context.Context, id string, limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		_, err := v.docker.ContainerInspect(ctx, id)
		if cerrdefs.IsNotFound(err) {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(pause):
		}
	}
}

// remove takes a container away in whatever state it is, and sees it gone.
func (v *Venue) remove(ctx context.Context, id string) error {
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 250*time.Millisecond) {
		err := v.docker.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true})
		if err != nil && !cerrdefs.IsNotFound(err) && !cerrdefs.IsConflict(err) { // conflict: a removal is under way
			return fmt.Errorf("remove container %s: %w", id, err)
		}
		_, err = v.docker.ContainerInspect(ctx, id)
		if cerrdefs.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("see container %s gone: %w", id, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("container %s is still there: %w", id, context.Cause(ctx))
		case <-time.After(pause):
		}
	}
}

var errSealed = errors.New("the session in this sandbox is over")
