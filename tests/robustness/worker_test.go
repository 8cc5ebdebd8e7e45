package robustness_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/tests/deployment"
)

// worker is one worker by name: a process that is started again whenever it ends.
type worker struct {
	s       *soak
	name    string
	binary  string
	config  string
	history string
	log     *os.File
	busy    sync.Mutex // a fault is at it

	mu      sync.Mutex
	process *os.Process   // nil while there is none
	ended   chan struct{} // closed when process has ended
	arm     string        // what the next process is armed with
	last    bool          // no process follows
}

// newWorker is the i-th worker. Each writes its history and its output to files of its own, process after process.
func (s *soak) newWorker(i int) *worker {
	name := fmt.Sprintf("%s-w%d", s.prefix, i+1)
	w := &worker{
		s: s, name: name, binary: deployment.FailpointBinary(s.t), config: s.configure(name),
		history: filepath.Join(s.folder, fmt.Sprintf("leases-w%d.jsonl", i+1)),
	}
	log, err := os.OpenFile(filepath.Join(s.folder, fmt.Sprintf("w%d.log", i+1)), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	require.NoError(s.t, err)
	w.log = log
	s.t.Cleanup(func() { require.NoError(s.t, log.Close()) })
	return w
}

const restartAfter = 200 * time.Millisecond

// supervise keeps a process running until ctx ends or the worker is told that no other follows, and returns when the last has ended.
func (w *worker) supervise(ctx context.Context) {
	for {
		ended, err := w.start()
		if err != nil {
			w.s.wrong("start "+w.name, err)
			return
		}
		if ended == nil {
			return
		}
		<-ended
		if ctx.Err() != nil || !pause(ctx, restartAfter) {
			return
		}
	}
}

// start starts the next process, if one is to follow.
func (w *worker) start() (chan struct{}, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last {
		return nil, nil
	}
	cmd := exec.Command(w.binary, "worker", "--config", w.config)
	cmd.Env = append(os.Environ(), "HARNESS_FAILPOINTS="+w.arm, "HARNESS_HISTORY="+w.history)
	cmd.Stdout, cmd.Stderr = w.log, w.log
	// Whatever becomes of the test, its workers do not outlive it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	fmt.Fprintf(w.log, "--- %s process %d %s\n", time.Since(w.s.began).Round(time.Millisecond), cmd.Process.Pid, w.arm)
	w.arm, w.process, w.ended = "", cmd.Process, make(chan struct{})
	ended := w.ended
	go func() {
		err := cmd.Wait()
		fmt.Fprintf(w.log, "--- %s process %d: %v\n", time.Since(w.s.began).Round(time.Millisecond), cmd.Process.Pid, err)
		w.mu.Lock()
		w.process = nil
		w.mu.Unlock()
		close(ended)
	}()
	return ended, nil
}

// signal sends a signal to the process that there is, if there is one, and gives what is closed at its end.
func (w *worker) signal(s syscall.Signal) (ended <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.process != nil {
		_ = w.process.Signal(s) // it may have ended by itself
	}
	return w.ended
}

func (w *worker) pid() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.process == nil {
		return 0
	}
	return w.process.Pid
}

// kill ends the process the hard way, and notes what it held.
func (w *worker) kill(ctx context.Context) error {
	rows, err := w.s.db.Query(ctx, `
		SELECT id, lease_epoch FROM ops_run
		WHERE lease_worker = $1 AND state = 'running' AND started_at IS NOT NULL AND lease_expires_at > clock_timestamp()`, w.name)
	if err != nil {
		return err
	}
	defer rows.Close()
	var kills []kill
	for rows.Next() {
		var k kill
		if err := rows.Scan(&k.run, &k.epoch); err != nil {
			return err
		}
		kills = append(kills, k)
	}
	ended := w.signal(syscall.SIGKILL)
	at := time.Now()
	w.s.mu.Lock()
	for _, k := range kills {
		k.at = at
		w.s.kills = append(w.s.kills, k)
	}
	w.s.mu.Unlock()
	if ended != nil {
		<-ended
	}
	return rows.Err()
}

// restart ends the process and has the next one armed.
func (w *worker) restart(ctx context.Context, arm string) error {
	w.mu.Lock()
	w.arm = arm
	w.mu.Unlock()
	return w.kill(ctx)
}

// stop stops the process for a while.
func (w *worker) stop(ctx context.Context, d time.Duration) error {
	w.signal(syscall.SIGSTOP)
	pause(ctx, d)
	w.signal(syscall.SIGCONT)
	return nil
}

// drainWithin is longer than the workers' drain limit and what may come after it, a minute of closing.
const drainWithin = 3 * time.Minute

// drain asks the process to end, and waits until it has.
func (w *worker) drain(ctx context.Context) error {
	ended := w.signal(syscall.SIGTERM)
	if ended == nil {
		return nil
	}
	select {
	case <-ended:
		return nil
	case <-time.After(drainWithin):
		w.signal(syscall.SIGQUIT) // says in the log what it is doing
		<-ended
		return fmt.Errorf("%s did not end within %s of being asked to", w.name, drainWithin)
	}
}

// stopped says whether the process is stopped by a signal.
func (w *worker) stopped() bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", w.pid()))
	if err != nil {
		return false
	}
	_, fields, _ := strings.Cut(string(data), ") ")
	return strings.HasPrefix(fields, "T")
}
