package guest

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rein-aharness/harness/sandbox/internal/wire"
)

// sessionNice is how much lower than the init the session's processes are scheduled, so that they cannot starve it.
const sessionNice = 10

// start runs a command as the session's user in a session (setsid) of its own. The returned channel gives its status once.
func (d *initd) start(req wire.Exec, files [3]*os.File) (int, <-chan syscall.WaitStatus, error) {
	argv, env := wire.Strings(req.Argv), wire.Strings(req.Env)
	candidates, err := lookup(argv[0], env)
	if err != nil {
		return 0, nil, err
	}
	attr := &syscall.ProcAttr{
		Dir: string(req.Dir), Env: env,
		// Fd puts the description into blocking mode, which is what a program expects of its standard streams.
		Files: []uintptr{files[0].Fd(), files[1].Fd(), files[2].Fd()},
		Sys: &syscall.SysProcAttr{
			Setsid:     true,
			Credential: &syscall.Credential{Uid: uint32(d.opts.UID), Gid: uint32(d.opts.GID)}, //nolint:gosec // positive, from our own command line
		},
	}
	d.spawn.Lock()
	defer d.spawn.Unlock()
	if d.sealed && !req.Helper {
		return 0, nil, fmt.Errorf("start %q: the session is over", argv[0])
	}
	var pid int
	var exit <-chan syscall.WaitStatus
	err = d.low.do(func() (err error) {
		// Children inherit the score; going back down to where it was needs no capability.
		before, err := os.ReadFile(oomScore)
		if err != nil {
			return err
		}
		if err := os.WriteFile(oomScore, []byte("1000"), 0); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.WriteFile(oomScore, before, 0)) }()
		for _, name := range candidates {
			pid, exit, err = d.reaper.fork(name, argv, attr)
			if err == nil || !(errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.ENOTDIR)) {
				break
			}
		}
		return err
	})
	if err != nil {
		return 0, nil, fmt.Errorf("start %q: %w", argv[0], err)
	}
	return pid, exit, nil
}

const oomScore = "/proc/self/oom_score_adj"

// lookup returns the paths under which name may be found, in order. Whether one can be run shows only when it is.
func lookup(name string, env []string) ([]string, error) {
	if strings.Contains(name, "/") {
		return []string{name}, nil
	}
	var found []string
	for _, kv := range env {
		list, ok := strings.CutPrefix(kv, "PATH=")
		if !ok {
			continue
		}
		found = nil
		for dir := range strings.SplitSeq(list, ":") {
			if path.IsAbs(dir) {
				found = append(found, path.Join(dir, name))
			}
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("start %q: the environment has no PATH to find it in", name)
	}
	return found, nil
}

// reaper collects every process that ends below PID 1: those that were started here, and the orphans of others.
type reaper struct {
	mu      sync.Mutex
	waiting map[int]chan syscall.WaitStatus
	signals chan os.Signal
}

func newReaper() *reaper {
	r := &reaper{waiting: map[int]chan syscall.WaitStatus{}, signals: make(chan os.Signal, 1)}
	signal.Notify(r.signals, syscall.SIGCHLD)
	return r
}

func (r *reaper) run() {
	for range r.signals {
		r.collect()
	}
}

func (r *reaper) collect() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if exit, ok := r.waiting[pid]; ok {
			delete(r.waiting, pid)
			exit <- status
		}
	}
}

// fork starts a process under the lock that collect takes, so that its end cannot be collected before it is known.
func (r *reaper) fork(name string, argv []string, attr *syscall.ProcAttr) (int, <-chan syscall.WaitStatus, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err := syscall.ForkExec(name, argv, attr)
	if err != nil {
		return 0, nil, err
	}
	exit := make(chan syscall.WaitStatus, 1)
	r.waiting[pid] = exit
	return pid, exit, nil
}

// seal lets no command of the session start any more. One that is just starting has started when it returns.
func (d *initd) seal() {
	d.spawn.Lock()
	defer d.spawn.Unlock()
	d.sealed = true
}

// killGroup ends the process group that a started command leads. Descendants that left it are quiesce's.
func (d *initd) killGroup(pid int) error {
	err := d.session.do(func() error { return unix.Kill(-pid, unix.SIGKILL) })
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

// quiesce ends every process but this one, and reports how many are left when it cannot within limit. Signals go out with the
// session's uid from a thread that exists already: neither fork nor thread is needed, so a full process table does not help the session. They are
// stopped before they are killed, so that none outruns the pass.
func (d *initd) quiesce(limit time.Duration) (int, error) {
	deadline := time.Now().Add(limit)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		err := d.session.do(func() error {
			for _, sig := range []unix.Signal{unix.SIGSTOP, unix.SIGKILL} {
				if err := unix.Kill(-1, sig); err != nil && !errors.Is(err, unix.ESRCH) {
					return fmt.Errorf("signal the session's processes: %w", err)
				}
			}
			return nil
		})
		if err != nil {
			return -1, err
		}
		d.reaper.collect()
		left, err := others()
		if err != nil {
			return -1, err
		}
		if left == 0 {
			return 0, nil
		}
		if time.Now().After(deadline) {
			return left, fmt.Errorf("%d processes could not be ended within %s", left, limit)
		}
		time.Sleep(pause)
	}
}

// others counts the processes of the container beside this one, zombies included.
func others() (int, error) {
	proc, err := os.Open("/proc")
	if err != nil {
		return 0, err
	}
	defer func() { _ = proc.Close() }() // read only
	names, err := proc.Readdirnames(-1)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && pid != 1 {
			n++
		}
	}
	return n, nil
}
