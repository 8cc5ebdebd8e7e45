package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/sandbox/internal/guest"
	"github.com/rein-aharness/harness/sandbox/internal/wire"
)

// Command is one process of the session. It runs as the session's user, in a process group of its own.
type Command struct {
	Argv    []string
	Env     []string      // added to the image's own and HOME, USER, TMPDIR; travels over the wire, never in the container's configuration
	Dir     string        // empty is the workspace
	Timeout time.Duration // zero: bounded by ctx and the sandbox's TTL alone
	Output  io.Writer     // standard output and error as they come; nil discards
}

// Exit is how a command ended. It is the session's claim.
type Exit struct {
	Code            int    // -1 when a signal ended it
	Signal          string // name of that signal, or empty
	OutputBytes     int64  // what was passed on
	OutputTruncated bool   // the output bound was reached and the command ended for it
}

// maxArgs bounds argv and environment together, in bytes.
const maxArgs = 512 << 10

// Exec runs one command to its end. A command that exits with a code, or by a signal, is no error. Errors are session_timeout,
// output_exceeded, memory_exceeded, session_start_failed and sandbox_lost; when ctx ends, its cause. After an error the command's
// process group has been killed, or the sandbox is gone.
func (s *Sandbox) Exec(ctx context.Context, c Command) (Exit, error) {
	if s.sealed.Load() {
		return Exit{}, evidence.Fail(evidence.StageSession, evidence.CodeSessionStartFailed, "exec", errSealed)
	}
	if err := c.validate(); err != nil {
		return Exit{}, evidence.Fail(evidence.StageSession, evidence.CodeSessionStartFailed, "exec", err)
	}
	s.quiesced.Store(false)
	dir := c.Dir
	if dir == "" {
		dir = Workspace
	}
	out := c.Output
	if out == nil {
		out = io.Discard
	}
	var exit Exit
	code := evidence.CodeSessionFailed
	sink := func(p []byte) error {
		room := s.spec.OutputBytes - s.output.Add(int64(len(p))) + int64(len(p))
		if room < int64(len(p)) {
			p = p[:max(room, 0)]
			exit.OutputTruncated = true
		}
		n, err := out.Write(p)
		exit.OutputBytes += int64(n)
		if err != nil {
			return fmt.Errorf("write the output: %w", err)
		}
		if exit.OutputTruncated {
			code = evidence.CodeOutputExceeded
			return errOutput
		}
		return nil
	}
	run, cancel := ctx, context.CancelFunc(func() {})
	if c.Timeout > 0 {
		run, cancel = context.WithTimeoutCause(ctx, c.Timeout, errTimeout)
	}
	defer cancel()
	res, err := s.exec(run, wire.Exec{Argv: wire.Bytes(c.Argv), Env: wire.Bytes(mergeEnv(s.env, c.Env)), Dir: []byte(dir)}, nil, sink)
	switch {
	case errors.Is(err, errTimeout):
		return exit, evidence.Fail(evidence.StageSession, evidence.CodeSessionTimeout, c.Timeout.String(), nil)
	case err != nil && res.NoStart:
		return exit, s.failure(ctx, evidence.StageSession, evidence.CodeSessionStartFailed, c.Argv[0], err)
	case err != nil:
		return exit, s.failure(ctx, evidence.StageSession, code, c.Argv[0], err)
	}
	exit.Code, exit.Signal = res.ExitCode, res.Signal
	if res.OOMKills > 0 && (exit.Code != 0 || exit.Signal != "") {
		return exit, evidence.Fail(evidence.StageSession, evidence.CodeMemoryExceeded, fmt.Sprintf("%d processes killed", res.OOMKills), nil)
	}
	return exit, nil
}

// mergeEnv returns every variable once; what comes later wins.
func mergeEnv(lists ...[]string) []string {
	var names []string
	values := map[string]string{}
	for _, list := range lists {
		for _, kv := range list {
			name, _, _ := strings.Cut(kv, "=")
			if _, seen := values[name]; !seen {
				names = append(names, name)
			}
			values[name] = kv
		}
	}
	merged := make([]string, 0, len(names))
	for _, name := range names {
		merged = append(merged, values[name])
	}
	return merged
}

var (
	errTimeout = errors.New("command timed out")
	errOutput  = errors.New("output bound reached")
)

func (c Command) validate() error {
	if len(c.Argv) == 0 || c.Argv[0] == "" {
		return errors.New("no command")
	}
	size := 0
	for _, list := range [][]string{c.Argv, c.Env} {
		for _, a := range list {
			if strings.ContainsRune(a, 0) {
				return errors.New("an argument or variable holds a NUL")
			}
			size += len(a) + 8 // what each costs beside its bytes
		}
	}
	if size > maxArgs {
		return fmt.Errorf("arguments and environment have %d bytes, %d allowed", size, maxArgs)
	}
	for _, kv := range c.Env {
		if name, _, ok := strings.Cut(kv, "="); !ok || name == "" {
			return errors.New("a variable is not name=value")
		}
	}
	return nil
}

// exec runs a process as the session's user. stdin, where not nil, is sent beside; a failure to read it ends the process. The
// stream's end, which every return leads to, ends the process group.
func (s *Sandbox) exec(ctx context.Context, e wire.Exec, stdin io.Reader, output func([]byte) error) (wire.Res, error) {
	e.Stdin = stdin != nil
	st, release, err := s.wire.stream(ctx, wire.Req{Op: wire.OpExec, Exec: &e})
	if err != nil {
		return wire.Res{}, cause(ctx, err)
	}
	var fed chan error
	if stdin != nil {
		fed = make(chan error, 1)
		go func() {
			err := send(st, stdin)
			if err != nil {
				release() // the process is not to take half of its input for all of it
			}
			fed <- err
		}()
	}
	res, err := receive(wire.NewReader(st), output)
	release()
	if fed != nil {
		// A process that ends early makes sending fail, and its exit code says why; otherwise half an input is no success.
		var source *sourceError
		if serr := <-fed; errors.As(serr, &source) || serr != nil && (err != nil || res.ExitCode == 0) {
			err = errors.Join(serr, err)
		}
	}
	return res, cause(ctx, err)
}

// helper runs one of the init binary's own helpers as the session's user. What it writes goes to output; an exit code other than
// zero is a helperError.
func (s *Sandbox) helper(ctx context.Context, argv []string, stdin io.Reader, output func([]byte) error) error {
	res, err := s.exec(ctx, wire.Exec{
		Argv: wire.Bytes(append([]string{guest.InitPath, guest.Command}, argv...)), Env: [][]byte{}, Dir: []byte("/"), Helper: true,
	}, stdin, output)
	if err != nil {
		return err
	}
	if res.ExitCode != wire.HelperOK || res.Signal != "" {
		return &helperError{code: res.ExitCode, signal: res.Signal, said: res.Stderr}
	}
	return nil
}

type helperError struct {
	code         int
	signal, said string
}

func (e *helperError) Error() string {
	return fmt.Sprintf("helper ended with code %d %s: %.1024q", e.code, e.signal, e.said)
}

// Unpack writes a tar archive into the workspace, as the session's user: folders, regular files and symlinks, nothing that exists is
// replaced and no link is followed. After an error the archive has not been read to its end.
func (s *Sandbox) Unpack(ctx context.Context, archive io.Reader) error {
	if s.sealed.Load() {
		return evidence.Fail(evidence.StageSession, evidence.CodeSessionStartFailed, "unpack", errSealed)
	}
	err := s.helper(ctx, []string{guest.HelperUnpack}, archive, func([]byte) error { return errors.New("unpack has no output") })
	var h *helperError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &h) && h.code == wire.HelperNoSpace:
		return evidence.Fail(evidence.StageSession, evidence.CodeDiskExceeded, Workspace, err)
	default:
		return s.failure(ctx, evidence.StageSession, evidence.CodeSessionStartFailed, "unpack", err)
	}
}
