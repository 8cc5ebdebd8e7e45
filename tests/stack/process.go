package stack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Process is one process of the stack. Started tells it from a later process that got the same pid.
type Process struct {
	PID     int    `json:"pid"`
	Started uint64 `json:"started"` // clock ticks after boot, as /proc/<pid>/stat has it
}

// Running says whether this very process is there and not a zombie.
func (p Process) Running() bool {
	if p.PID <= 0 {
		return false
	}
	started, state, err := statOf(p.PID)
	return err == nil && started == p.Started && state != "Z" && state != "X"
}

// Signal sends a signal to this very process. A process that is gone is no error.
func (p Process) Signal(signal syscall.Signal) error {
	if !p.Running() {
		return nil
	}
	if err := syscall.Kill(p.PID, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal process %d: %w", p.PID, err)
	}
	return nil
}

// Stop asks the process to end by the signal, and kills it when it has not after the grace. It returns when the
// process is gone.
func (p Process) Stop(signal syscall.Signal, grace time.Duration) error {
	if err := p.Signal(signal); err != nil {
		return err
	}
	if p.gone(grace) {
		return nil
	}
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	if !p.gone(10 * time.Second) {
		return fmt.Errorf("process %d does not end", p.PID)
	}
	return nil
}

func (p Process) gone(within time.Duration) bool {
	for deadline := time.Now().Add(within); p.Running(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// launch starts a command that outlives its starter: in a session of its own, without input, its output appended to
// the log file.
func launch(cmd *exec.Cmd, logFile string) (Process, error) {
	if err := os.MkdirAll(filepath.Dir(logFile), 0o700); err != nil {
		return Process{}, err
	}
	output, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return Process{}, err
	}
	defer output.Close()
	cmd.Stdout, cmd.Stderr = output, output
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	cmd.SysProcAttr.Setsid = true
	if err := cmd.Start(); err != nil {
		return Process{}, fmt.Errorf("start %s: %w", filepath.Base(cmd.Path), err)
	}
	started, _, err := statOf(cmd.Process.Pid)
	if err != nil {
		return Process{}, fmt.Errorf("start %s: %w", filepath.Base(cmd.Path), err)
	}
	process := Process{PID: cmd.Process.Pid, Started: started}
	// Reaped here while the starter lives, by init afterwards.
	go func() { _ = cmd.Wait() }()
	return process, nil
}

// await polls until ready returns nil. It gives up when the process has ended or the time is over, and then the error
// has the tail of the log.
func await(ctx context.Context, process Process, logFile string, within time.Duration, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		if !process.Running() {
			return fmt.Errorf("it ended at once:\n%s", tail(logFile))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not ready after %s: %w\n%s", within, err, tail(logFile))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// tail is the end of a log, for an error message.
func tail(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer file.Close()
	if size, err := file.Seek(0, io.SeekEnd); err == nil {
		_, _ = file.Seek(max(0, size-4096), io.SeekStart)
	}
	data, err := io.ReadAll(file)
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(data))
}

// statOf reads the start time and the state of a process.
func statOf(pid int) (started uint64, state string, err error) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, "", err
	}
	// The command's name is in parentheses and may hold anything; the fields count from behind it.
	_, rest, found := strings.Cut(string(data[bytes.LastIndexByte(data, ')'):]), " ")
	fields := strings.Fields(rest)
	if !found || len(fields) < 20 {
		return 0, "", fmt.Errorf("process %d: unexpected stat", pid)
	}
	started, err = strconv.ParseUint(fields[19], 10, 64)
	return started, fields[0], err
}

// processesWith finds the processes that have one of the arguments exactly. It serves for children of a part that
// outlive it, and for parts whose state was lost; so the arguments must be ones that only the stack uses.
func processesWith(arguments ...string) ([]Process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var found []Process
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		line, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline"))
		if err != nil {
			continue // ended meanwhile
		}
		if !slices.ContainsFunc(strings.Split(string(line), "\x00"), func(a string) bool { return slices.Contains(arguments, a) }) {
			continue
		}
		if started, _, err := statOf(pid); err == nil {
			found = append(found, Process{PID: pid, Started: started})
		}
	}
	return found, nil
}
