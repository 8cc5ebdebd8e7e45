package stack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Up starts every part that does not run, and reports each step on output. The state is written after each part, so
// what runs can always be stopped, also when a later part fails.
func Up(ctx context.Context, dir string, output io.Writer) error {
	unlock, err := lock(ctx, dir)
	if err != nil {
		return err
	}
	defer unlock()
	if err := installMissing(ctx, output); err != nil {
		return err
	}
	s, err := Read(dir)
	if errors.Is(err, ErrNotUp) {
		s = newState(dir)
		// What a stack of this folder left behind when its state was lost.
		err = s.sweep(ctx)
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.Data, 0o711); err != nil {
		return err
	}
	up := &starter{State: s, output: output, began: time.Now()}
	return up.all(ctx)
}

// starter starts the parts of one stack in order.
type starter struct {
	*State
	output io.Writer
	began  time.Time
}

func (u *starter) all(ctx context.Context) error {
	restarted, err := u.part(ctx, "postgres", u.startPostgres)
	if err != nil {
		return err
	}
	if _, err = u.part(ctx, "dockerd", u.startDocker); err != nil {
		return err
	}
	if _, err = u.part(ctx, "git", u.startGit); err != nil {
		return err
	}
	_ = restarted
	u.say("up", "%s, state in %s", time.Since(u.began).Round(10*time.Millisecond), u.file(stateFile))
	return nil
}

// part starts one part unless its process runs, and says whether it did.
func (u *starter) part(ctx context.Context, name string, start func(context.Context) error) (started bool, err error) {
	if u.Processes[name].Running() {
		u.say(name, "running")
		return false, nil
	}
	began := time.Now()
	u.say(name, "starting")
	err = start(ctx)
	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	if err := errors.Join(err, u.write()); err != nil {
		return true, err
	}
	u.say(name, "started in %s", time.Since(began).Round(10*time.Millisecond))
	return true, nil
}

func (u *starter) say(part, format string, arguments ...any) {
	fmt.Fprintf(u.output, "%-10s %s\n", part+":", fmt.Sprintf(format, arguments...))
}

// Down stops all parts and removes the state and the data; only the logs stay. Nothing running is no error.
func Down(ctx context.Context, dir string, output io.Writer) error {
	unlock, err := lock(ctx, dir)
	if err != nil {
		return err
	}
	defer unlock()
	s, err := Read(dir)
	if errors.Is(err, ErrNotUp) {
		s, err = newState(dir), nil
	}
	if err != nil {
		return err
	}
	problems := []error{
		stopGit(s.Processes["git"]),
		s.stopDocker(ctx),
		stopPostgres(s.Processes["postgres"]),
		s.sweep(ctx),
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	fmt.Fprintln(output, "down:      nothing of the stack is running")
	return nil
}

// sweep ends what still runs of the stack, by the arguments only its processes have, and removes the data and all of
// the state folder but the logs.
func (s *State) sweep(ctx context.Context) error {
	left, err := processesWith(
		s.data("stack"),
		s.data("docker", "daemon.json"),
		s.data("docker", "containerd.toml"),
		s.data("docker", "containerd.sock"), // the shims of containers
		s.data("postgres", "data"),
	)
	if err != nil {
		return err
	}
	var problems []error
	for _, process := range left {
		problems = append(problems, process.Stop(syscall.SIGTERM, 10*time.Second))
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	if err := clearEngine(s.data("docker")); err != nil {
		return err
	}
	if err := os.RemoveAll(s.Data); err != nil {
		return err
	}
	entries, err := os.ReadDir(s.Dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.Name() == "log" || entry.Name() == lockFile {
			continue
		}
		if err := os.RemoveAll(filepath.Join(s.Dir, entry.Name())); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// Status writes one line per part and says whether all run.
func Status(dir string, output io.Writer) (bool, error) {
	s, err := Read(dir)
	if errors.Is(err, ErrNotUp) {
		fmt.Fprintln(output, "down")
		return false, nil
	}
	if err != nil {
		return false, err
	}
	all := true
	for _, line := range []struct{ part, address string }{
		{"postgres", fmt.Sprintf("%s:%d", s.Postgres.Host, s.Postgres.Port)},
		{"containerd", ""},
		{"dockerd", s.Docker.Host},
		{"git", strings.Join([]string{s.Git.HTTP, s.Git.HTTPS, s.Git.SSH}, "  ")},
	} {
		process, state := s.Processes[line.part], "stopped"
		if process.Running() {
			state = fmt.Sprintf("running (%d)", process.PID)
		} else {
			all = false
		}
		fmt.Fprintf(output, "%-10s %-16s %s\n", line.part, state, line.address)
	}
	return all, nil
}

const lockFile = ".lock"

// lock makes the state folder and holds it against another Up or Down until the returned function is called.
func lock(ctx context.Context, dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), file.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), file.Close())
		case <-time.After(100 * time.Millisecond):
		}
	}
}
