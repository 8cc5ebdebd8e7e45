package guest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/yamux"
	"golang.org/x/sys/unix"

	"github.com/rein-aharness/harness/sandbox/internal/wire"
)

// maxStreams bounds what the worker may have open at once.
const maxStreams = 64

type initd struct {
	opts    Options
	reaper  *reaper
	session *thread    // with the session's uid: to signal its processes, and to write into its folders
	low     *thread    // with the session's priority: to start its processes from
	spawn   sync.Mutex // one start at a time: the oom score is the process's, not the thread's
	sealed  bool       // under spawn
}

// runInit is PID 1. It returns only with an error, or when the wire is gone.
func runInit(args []string) error {
	opts, err := ParseOptions(args)
	if err != nil {
		return err
	}
	if os.Getpid() != 1 {
		return fmt.Errorf("%s: must be the first process of a container", Command)
	}
	// Not dumpable: nobody of another uid opens this process's memory, descriptors or environment.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("%s: set not dumpable: %w", Command, err)
	}
	unix.Umask(0o022)
	// The TTL needs no wire and no worker. Exiting as PID 1 ends everything in the container.
	time.AfterFunc(opts.TTL, func() { os.Exit(wire.HelperFailed) })

	mux, err := yamux.Server(stdio{}, wire.MuxConfig(opts.Keepalive))
	if err != nil {
		return fmt.Errorf("%s: wire: %w", Command, err)
	}
	d := &initd{opts: opts, reaper: newReaper()}
	if d.session, err = sessionThread(opts.UID, opts.GID); err != nil {
		return fmt.Errorf("%s: %w", Command, err)
	}
	if d.low, err = lowThread(); err != nil {
		return fmt.Errorf("%s: %w", Command, err)
	}
	keepThreads(spareThreads)
	go d.reaper.run()
	slots := make(chan struct{}, maxStreams)
	for {
		stream, err := mux.AcceptStream()
		if err != nil {
			return fmt.Errorf("%s: wire closed: %w", Command, err)
		}
		slots <- struct{}{}
		go func() {
			defer func() { <-slots }()
			defer func() { _ = stream.Close() }() // the peer sees the end either way
			d.serve(stream)
		}()
	}
}

// serve answers one stream. A result that cannot be sent needs no handling: the worker sees the stream end without one.
func (d *initd) serve(stream *yamux.Stream) {
	in := wire.NewReader(stream)
	kind, payload, err := in.Next()
	var req wire.Req
	switch {
	case err == nil && kind == wire.Request:
		err = wire.Decode(payload, &req)
	case err == nil:
		err = fmt.Errorf("%w: a stream opens with a request", wire.ErrMalformed)
	}
	res := wire.Res{}
	if err != nil {
		res.Error = err.Error()
	} else {
		res = d.answer(req, in, stream)
	}
	_ = wire.WriteJSON(stream, wire.Result, res)
}

func (d *initd) answer(req wire.Req, in *wire.Reader, out io.Writer) wire.Res {
	switch {
	case req.Op == wire.OpHello:
		return wire.Res{Version: wire.Version}
	case req.Op == wire.OpExec && req.Exec != nil:
		return d.exec(*req.Exec, in, out)
	case req.Op == wire.OpPut && req.Put != nil:
		if err := d.put(*req.Put, in); err != nil {
			return wire.Res{Error: err.Error()}
		}
		return wire.Res{}
	case req.Op == wire.OpQuiesce:
		if req.Seal {
			d.seal()
		}
		left, err := d.quiesce(10 * time.Second)
		if err != nil {
			return wire.Res{Error: err.Error(), Left: left}
		}
		return wire.Res{}
	}
	return wire.Res{Error: fmt.Sprintf("unknown or incomplete request %q", req.Op)}
}

// stdio is the container's end of the attached connection.
type stdio struct{}

func (stdio) Read(p []byte) (int, error)  { return os.Stdin.Read(p) }
func (stdio) Write(p []byte) (int, error) { return os.Stdout.Write(p) }
func (stdio) Close() error                { return errors.Join(os.Stdin.Close(), os.Stdout.Close()) }
