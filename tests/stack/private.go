package stack

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Part is a part of the stack that a test may have for itself.
type Part string

// The parts that a test may have for itself. Git servers need none: GitHandler serves within the test.
const (
	PartPostgres Part = "postgres"
	PartDocker   Part = "docker"
	PartVault    Part = "vault"
)

// processes are the processes of a part, the one that is asked first.
func (p Part) processes() []string {
	if p == PartDocker {
		return []string{"dockerd", "containerd"}
	}
	return []string{string(p)}
}

// Private is the stack with the given parts started anew for this test, to be broken by it. The other parts are the
// shared ones. What was started is stopped and removed when the test ends; an engine has the same images.
func (s *Stack) Private(t testing.TB, parts ...Part) *Stack {
	t.Helper()
	folder := s.data("private", strings.ToLower(rand.Text()[:8]))
	if err := os.MkdirAll(folder, 0o711); err != nil {
		t.Fatal(err)
	}
	private := &Stack{s.State}
	own := privateState(folder)
	private.Dir, private.Data, private.Processes = own.Dir, own.Data, maps.Clone(s.Processes)
	if err := os.Mkdir(private.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		var problems []error
		for _, part := range parts {
			problems = append(problems, private.resume(part), private.stopPart(ctx, part))
		}
		if err := errors.Join(append(problems, privateState(folder).clear())...); err != nil {
			t.Errorf("stop the test's own part of the stack: %v", err)
		}
	})
	for _, part := range parts {
		if err := private.startPart(t.Context(), s, part); err != nil {
			t.Fatalf("start the test's own %s: %v", part, err)
		}
	}
	return private
}

// privateState is a stack without any part in a folder of its own.
func privateState(folder string) *State {
	return &State{Dir: filepath.Join(folder, "state"), Data: folder, Processes: map[string]Process{}, Images: map[string]string{}}
}

func (s *Stack) startPart(ctx context.Context, shared *Stack, part Part) error {
	switch part {
	case PartPostgres:
		return s.startPostgres(ctx)
	case PartDocker:
		if err := s.startDocker(ctx); err != nil {
			return err
		}
		for name, archive := range shared.Archives {
			if err := s.Docker.load(ctx, archive); err != nil {
				return fmt.Errorf("image %s: %w", name, err)
			}
		}
		return nil
	case PartVault:
		if shared.Vault.Program == "" {
			return errors.New("the stack did not start its Vault itself, so it cannot start another")
		}
		// The ssh server goes on trusting the shared authority alone.
		s.Git.SSHCAFile = s.file(gitSSHCAFile)
		if err := s.startVault(ctx, vaultServer{program: shared.Vault.Program, dev: shared.Vault.Dev}); err != nil {
			return err
		}
		return s.configureVault(ctx)
	default:
		return fmt.Errorf("unknown part %q", part)
	}
}

func (s *State) stopPart(ctx context.Context, part Part) error {
	switch part {
	case PartPostgres:
		return stopPostgres(s.Processes["postgres"])
	case PartDocker:
		return s.stopDocker(ctx)
	default:
		return s.Processes[string(part)].Stop(syscall.SIGTERM, 5*time.Second)
	}
}

// Signal sends a signal to all processes of a private part: SIGSTOP and SIGCONT suspend it and let it go on, SIGKILL
// ends it, and so does SIGQUIT Postgres (as `pg_ctl stop -m immediate`).
func (s *Stack) Signal(t testing.TB, part Part, signal syscall.Signal) {
	t.Helper()
	s.mustBePrivate(t)
	for _, name := range part.processes() {
		if err := s.Processes[name].Signal(signal); err != nil {
			t.Fatal(err)
		}
	}
}

// Restart ends a private part, if it still runs, and starts it again at the same address on the data that it had. A
// Vault keeps nothing, so there is no restart of one.
func (s *Stack) Restart(t testing.TB, part Part) {
	t.Helper()
	s.mustBePrivate(t)
	var err error
	switch part {
	case PartPostgres:
		var owner account
		if owner, err = databaseOwner(); err == nil {
			err = errors.Join(s.resume(part), s.Processes["postgres"].Stop(syscall.SIGQUIT, 15*time.Second))
		}
		if err == nil {
			s.Processes["postgres"], err = serveCluster(t.Context(), owner, s.data("postgres"), s.log("postgres"), s.Postgres)
		}
	case PartDocker:
		err = s.resume(part)
		for _, name := range part.processes() {
			err = errors.Join(err, s.Processes[name].Stop(syscall.SIGTERM, 30*time.Second))
		}
		if err == nil {
			err = s.runDocker(t.Context())
		}
	default:
		err = errors.New("cannot be restarted")
	}
	if err != nil {
		t.Fatalf("restart %s: %v", part, err)
	}
}

// resume lets go on what a test has suspended; a suspended process would not see that it is asked to end.
func (s *State) resume(part Part) error {
	var problems []error
	for _, name := range part.processes() {
		problems = append(problems, s.Processes[name].Signal(syscall.SIGCONT))
	}
	return errors.Join(problems...)
}

func (s *Stack) mustBePrivate(t testing.TB) {
	t.Helper()
	if filepath.Base(filepath.Dir(s.Data)) != "private" {
		t.Fatal("only a private part of the stack may be broken")
	}
}
