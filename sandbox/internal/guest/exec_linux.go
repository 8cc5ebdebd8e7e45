package guest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rein-aharness/harness/sandbox/internal/wire"
)

// drain is how long after a command's end its output may still be held open by descendants it left behind.
const drain = 300 * time.Millisecond

// maxStderr bounds what a helper may say about its failure.
const maxStderr = 4 << 10

// exec runs one command as the session's user. The stream's end, or a Kill frame, ends the command's process group.
func (d *initd) exec(req wire.Exec, in *wire.Reader, out io.Writer) wire.Res {
	if len(req.Argv) == 0 {
		return wire.Res{Error: "no command", NoStart: true}
	}
	p, err := openPipes(req)
	if err != nil {
		return wire.Res{Error: err.Error(), NoStart: true}
	}
	defer p.close()
	before := oomKills()
	pid, exit, err := d.start(req, p.child)
	p.closeChild()
	if err != nil {
		return wire.Res{Error: err.Error(), NoStart: true}
	}
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		feed(in, p.stdin)
		select {
		case <-ended:
		default:
			_ = d.killGroup(pid) // quiesce is what proves that nothing is left
		}
	}()
	stderr := make(chan string, 1)
	go func() { stderr <- readBounded(p.stderr) }()
	status := make(chan syscall.WaitStatus, 1)
	go func() {
		s := <-exit
		status <- s
		_ = p.stdout.SetReadDeadline(time.Now().Add(drain))
		if p.stderr != nil {
			_ = p.stderr.SetReadDeadline(time.Now().Add(drain))
		}
	}()
	relayErr := relay(p.stdout, out)
	if relayErr != nil {
		_ = d.killGroup(pid)
	}
	s := <-status
	res := wire.Res{ExitCode: s.ExitStatus(), Stderr: <-stderr, OOMKills: -1}
	if s.Signaled() {
		res.ExitCode, res.Signal = -1, unix.SignalName(s.Signal())
	}
	if after := oomKills(); before >= 0 && after >= before {
		res.OOMKills = after - before
	}
	if relayErr != nil {
		res.Error = relayErr.Error()
	}
	return res
}

// feed passes Data frames on to the command's standard input. It returns when the command shall end: at a Kill frame, at a frame
// out of turn, or when the stream ends.
func feed(in *wire.Reader, stdin *os.File) {
	for {
		kind, payload, err := in.Next()
		switch {
		case err == nil && kind == wire.Data && stdin != nil:
			// A command that no longer reads makes this fail; what it missed is its own matter, its exit code tells.
			_, _ = stdin.Write(payload)
		case err == nil && kind == wire.End && stdin != nil:
			_ = stdin.Close()
		default:
			return
		}
	}
}

// relay sends what the command writes until nobody holds the pipe, or drain after its end.
func relay(from *os.File, to io.Writer) error {
	buf := make([]byte, wire.MaxChunk)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if werr := wire.Write(to, wire.Output, buf[:n]); werr != nil {
				return werr
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the command's output: %w", err)
		}
	}
}

func readBounded(from *os.File) string {
	if from == nil {
		return ""
	}
	text, _ := io.ReadAll(io.LimitReader(from, maxStderr)) // a message cut short is still the message
	_, _ = io.Copy(io.Discard, from)
	return string(text)
}

// pipes are the standard streams of one command; stdin and stderr are nil where it has none of its own.
type pipes struct {
	child                 [3]*os.File
	stdin, stdout, stderr *os.File
}

func openPipes(req wire.Exec) (_ *pipes, err error) {
	p := &pipes{}
	defer func() {
		if err != nil {
			p.closeChild()
			p.close()
		}
	}()
	if req.Stdin {
		p.child[0], p.stdin, err = os.Pipe()
	} else {
		p.child[0], err = os.Open(os.DevNull)
	}
	if err != nil {
		return nil, err
	}
	if p.stdout, p.child[1], err = os.Pipe(); err != nil {
		return nil, err
	}
	p.child[2] = p.child[1]
	if req.Helper {
		if p.stderr, p.child[2], err = os.Pipe(); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *pipes) closeChild() {
	for _, f := range p.child {
		_ = f.Close() // nil and twice are fine; the child holds its own
	}
}

func (p *pipes) close() {
	for _, f := range []*os.File{p.stdin, p.stdout, p.stderr} {
		_ = f.Close()
	}
}
