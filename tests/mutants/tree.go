package mutants

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// tree is a copy of the module, to be changed. What is built in it knows nothing of where it is (-trimpath), so that Go's cache serves
// every copy.
type tree struct {
	dir string
	env []string // of the commands in it, besides the process's own
}

// clone copies what git knows or would add of the working tree at root, and not what it ignores.
func clone(ctx context.Context, root, dir string) error {
	list, err := command(ctx, root, nil, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return fmt.Errorf("list the tree: %w: %s", err, list)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(list, "\x00"), "\x00") {
		if err := clonedFile(filepath.Join(root, name), filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("copy the tree: %w", err)
		}
	}
	return nil
}

func clonedFile(from, to string) error {
	data, err := os.ReadFile(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // deleted, and git was not told yet
	}
	if err != nil {
		return err
	}
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, data, info.Mode().Perm())
}

// patch changes the tree, or changes it back.
func (t tree) patch(ctx context.Context, file string, back bool) error {
	arguments := []string{"apply"}
	if back {
		arguments = append(arguments, "--reverse")
	}
	if output, err := command(ctx, t.dir, t.env, "git", append(arguments, file)...); err != nil {
		return fmt.Errorf("%w: %s", err, output)
	}
	return nil
}

// build compiles everything but the tests.
func (t tree) build(ctx context.Context) error {
	if output, err := command(ctx, t.dir, t.env, "go", "build", "-trimpath", "./..."); err != nil {
		return fmt.Errorf("%w: %s", err, output)
	}
	return nil
}

// test runs one test and gives what it prints. The output alone says whether it passed.
func (t tree) test(ctx context.Context, m Mutant) (output string, err error) {
	output, err = command(ctx, t.dir, t.env, "go", "test", "-trimpath", "-vet=off", "-count=1", "-v", "-timeout=5m", "-run", m.pattern(), m.Package)
	var ended *exec.ExitError
	if ctx.Err() == nil && errors.As(err, &ended) {
		err = nil
	}
	return output, err
}

// command runs a program to its end and gives all that it prints.
func command(ctx context.Context, dir string, env []string, name string, arguments ...string) (string, error) {
	c := exec.CommandContext(ctx, name, arguments...)
	c.Dir, c.Env = dir, append(os.Environ(), env...)
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = time.Minute
	output, err := c.CombinedOutput()
	return string(output), err
}
