package stack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rein-aharness/harness/tests/images"
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
	checkout, err := Checkout()
	if err != nil {
		return err
	}
	return (&starter{State: s, checkout: checkout, output: output, began: time.Now()}).all(ctx)
}

// starter starts the parts of one stack.
type starter struct {
	*State
	checkout string
	began    time.Time

	mu     sync.Mutex // guards output: what is made meanwhile reports too
	output io.Writer
}

// all starts the parts one after the other. What is slow to make is made meanwhile, and awaited where it is used.
func (u *starter) all(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var makers sync.WaitGroup
	defer makers.Wait()
	defer cancel()
	server := later(&makers, func() (vaultServer, error) {
		if u.vaultRuns() {
			return vaultServer{}, nil
		}
		return findVault(ctx, u.checkout, u.sayer("vault"))
	})
	built := later(&makers, func() ([]images.Image, error) {
		cache, err := CacheFolder()
		if err != nil {
			return nil, err
		}
		return images.Build(ctx, u.checkout, cache, u.sayer("images"))
	})
	demo := later(&makers, func() (string, error) { return buildDemo(ctx, u.sayer("demo")) })

	if _, err := u.part(ctx, "postgres", u.startPostgres); err != nil {
		return err
	}
	// Each needs the other.
	if u.Processes["dockerd"].Running() != u.Processes["containerd"].Running() {
		if err := u.stopDocker(ctx); err != nil {
			return err
		}
	}
	if _, err := u.part(ctx, "dockerd", u.startDocker); err != nil {
		return err
	}
	newGit, err := u.part(ctx, "git", u.startGit)
	if err != nil {
		return err
	}
	if err := u.loadImages(ctx, built); err != nil {
		return fmt.Errorf("images: %w", err)
	}
	if newGit || !exists(filepath.Join(u.Git.Root, demoName)) {
		if err := u.provideDemo(ctx, demo); err != nil {
			return fmt.Errorf("demo: %w", err)
		}
	}
	if u.vaultRuns() {
		u.say("vault", "running")
	} else {
		found, err := server()
		if err != nil {
			return fmt.Errorf("vault: %w", err)
		}
		if _, err := u.part(ctx, "vault", func(ctx context.Context) error { return u.startVault(ctx, found) }); err != nil {
			return err
		}
	}
	if !u.Vault.Configured {
		if err := errors.Join(u.configureVault(ctx), u.write()); err != nil {
			return fmt.Errorf("configure vault: %w", err)
		}
		u.say("vault", "configured")
	}
	u.say("up", "%s, state in %s", time.Since(u.began).Round(10*time.Millisecond), u.file(stateFile))
	return nil
}

// vaultRuns says whether a server is there.
func (u *starter) vaultRuns() bool {
	return u.Vault.Foreign || u.Processes["vault"].Running()
}

// later runs produce beside the caller; the returned function awaits what it made.
func later[T any](makers *sync.WaitGroup, produce func() (T, error)) func() (T, error) {
	var (
		made T
		err  error
		done = make(chan struct{})
	)
	makers.Go(func() {
		defer close(done)
		made, err = produce()
	})
	return func() (T, error) {
		<-done
		return made, err
	}
}

func (u *starter) loadImages(ctx context.Context, built func() ([]images.Image, error)) error {
	list, err := built()
	if err != nil {
		return err
	}
	// No image of an earlier version of the sources is named any more.
	u.Images, u.Archives = map[string]string{}, map[string]string{}
	for _, image := range list {
		u.Images[image.Name], u.Archives[image.Name] = image.ID, image.Archive
		if u.Docker.hasImage(ctx, image.ID) {
			continue
		}
		if err := u.Docker.load(ctx, image.Archive); err != nil {
			return err
		}
		if !u.Docker.hasImage(ctx, image.ID) {
			return fmt.Errorf("the engine gave %s another id than %s", image.Name, image.ID)
		}
		u.say("images", "loaded %s as %s", image.Name, image.ID)
	}
	return u.write()
}

func (u *starter) provideDemo(ctx context.Context, demo func() (string, error)) error {
	cached, err := demo()
	if err != nil {
		return err
	}
	if err := errors.Join(u.publishDemo(ctx, cached), u.write()); err != nil {
		return err
	}
	u.say("demo", "%s at %s", u.Demo.Baseline, u.Demo.URL)
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
	if err = start(ctx); err != nil {
		// Not left half started: the next Up would take it for running.
		err = errors.Join(fmt.Errorf("%s: %w", name, err), u.Processes[name].Stop(syscall.SIGTERM, 10*time.Second))
	}
	if err := errors.Join(err, u.write()); err != nil {
		return true, err
	}
	u.say(name, "started in %s", time.Since(began).Round(10*time.Millisecond))
	return true, nil
}

// say reports one step of a part as a line of its own.
func (u *starter) say(part, format string, arguments ...any) {
	u.mu.Lock()
	defer u.mu.Unlock()
	fmt.Fprintf(u.output, "%-10s %s\n", part+":", fmt.Sprintf(format, arguments...))
}

func (u *starter) sayer(part string) func(format string, arguments ...any) {
	return func(format string, arguments ...any) { u.say(part, format, arguments...) }
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
		s.stopVault(ctx),
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

// sweep ends what still runs of the stack and removes the data and all of the state folder but the logs.
func (s *State) sweep(ctx context.Context) error {
	if err := s.clear(); err != nil {
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

// clear ends what still runs of the stack, by the arguments that only its processes have, and removes the data.
func (s *State) clear() error {
	arguments := s.ownArguments()
	private, err := filepath.Glob(s.data("private", "*"))
	if err != nil {
		return err
	}
	for _, folder := range private { // of tests that were killed
		arguments = append(arguments, privateState(folder).ownArguments()...)
	}
	left, err := processesWith(arguments...)
	if err != nil {
		return err
	}
	var problems []error
	for _, process := range left {
		problems = append(problems, process.Signal(syscall.SIGCONT), process.Stop(syscall.SIGTERM, 10*time.Second))
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	return clearEngine(s.Data)
}

// ownArguments are arguments that only processes of this stack have.
func (s *State) ownArguments() []string {
	return []string{
		s.data("stack"),
		s.file("vault-ready.json"),
		s.data("docker", "daemon.json"),
		s.data("docker", "containerd.toml"),
		s.data("docker", "containerd.sock"), // the shims of containers
		s.data("postgres", "data"),
	}
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
		{"vault", s.Vault.Address},
		{"git", strings.Join([]string{s.Git.HTTP, s.Git.HTTPS, s.Git.SSH}, "  ")},
	} {
		process, state := s.Processes[line.part], "stopped"
		if line.part == "vault" && s.Vault.Foreign {
			state = "not ours"
		} else if process.Running() {
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
