package deployment

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// WorkerSettings of a worker process that tests vary.
type WorkerSettings struct {
	Failpoints  string   // arms points of a build that has them; otherwise the worker is the released binary
	Binary      string   // another build of the command
	DatabaseURL string   // another way to the deployment's database
	Config      []string // pairs of what the deployment's file says and what this worker's is to say
	Arguments   []string
	Environment []string // added to the test's own
}

// Process is a running command of the real binary. It is killed when the test ends.
type Process struct {
	Name   string
	cmd    *exec.Cmd
	output *output
	ended  chan struct{}
}

// Worker starts a worker of the deployment, as a process of its own. Two of one name are one worker, restarted.
func (d *Deployment) Worker(t testing.TB, name string, s WorkerSettings) *Process {
	t.Helper()
	binary := Binary(t)
	if s.Failpoints != "" {
		binary = FailpointBinary(t)
	}
	if s.Binary != "" {
		binary = s.Binary
		s.Config = append(s.Config, Binary(t), s.Binary) // its sandboxes' init
	}
	arguments := append([]string{"worker", "--config", d.configure(t, name, s.DatabaseURL, s.Config...)}, s.Arguments...)
	return start(t, name, binary, append([]string{"HARNESS_FAILPOINTS=" + s.Failpoints}, s.Environment...), arguments...)
}

// Start starts any command of the released binary under a worker's name.
func (d *Deployment) Start(t testing.TB, name string, arguments ...string) *Process {
	t.Helper()
	return start(t, name, Binary(t), nil, append(arguments, "--config", d.configure(t, name, ""))...)
}

// Command runs a command of the released binary to its end.
func (d *Deployment) Command(t testing.TB, arguments ...string) (stdout string, code int) {
	t.Helper()
	cmd := exec.Command(Binary(t), append(arguments, "--config", d.File)...)
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	if complaint.Len() > 0 {
		t.Logf("%s: %s", arguments[0], complaint.String())
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// configure writes the configuration of one worker, with possibly a database address of its own.
func (d *Deployment) configure(t testing.TB, name, url string, pairs ...string) string {
	t.Helper()
	if url == "" {
		return d.Configure(t, name, pairs...)
	}
	return d.Configure(t, name, append(pairs, "database.url", filepath.Base(d.write(t, name+".url", url)))...)
}

// Configure writes the configuration of one worker: a name and a cache of its own, and whatever else is given as pairs of what the
// deployment's file says and what this one is to say.
func (d *Deployment) Configure(t testing.TB, name string, pairs ...string) string {
	t.Helper()
	data, err := os.ReadFile(d.File)
	require.NoError(t, err)
	pairs = append(pairs, "worker-1", name, "cache_dir: baselines", "cache_dir: baselines-"+name) // of two for one text the first counts
	return d.write(t, name+".yaml", strings.NewReplacer(pairs...).Replace(string(data)))
}

func start(t testing.TB, name, binary string, environment []string, arguments ...string) *Process {
	t.Helper()
	p := &Process{Name: name, cmd: exec.Command(binary, arguments...), output: &output{}, ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), environment...)
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	require.NoError(t, p.cmd.Start())
	go func() {
		_ = p.cmd.Wait() // how it ended is in ProcessState
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%s said:\n%s", name, p.Output())
		}
	})
	return p
}

func (p *Process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

// PID is the process's id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Over reports whether the process has ended.
func (p *Process) Over() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// Signal sends a signal to the process.
func (p *Process) Signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(s), "signal %s", p.Name)
}

// Kill ends the process the hard way and waits until it is gone.
func (p *Process) Kill(t testing.TB) {
	t.Helper()
	p.Signal(t, syscall.SIGKILL)
	<-p.ended
}

// Ended waits until the process has ended and gives its exit code, -1 when a signal ended it.
func (p *Process) Ended(t testing.TB, within time.Duration) int {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(within):
		require.FailNow(t, "the process goes on", "%s after %s", p.Name, within)
	}
	return p.cmd.ProcessState.ExitCode()
}

// Stopped reports whether the process is stopped by a signal.
func (p *Process) Stopped(t testing.TB) bool {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	require.NoError(t, err)
	_, fields, _ := strings.Cut(string(data), ") ")
	return strings.HasPrefix(fields, "T")
}

// Output is what the process has written so far.
func (p *Process) Output() string { return p.output.String() }

// output collects what a process writes, while others read it.
type output struct {
	mu   sync.Mutex
	data bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.data.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.data.String()
}
