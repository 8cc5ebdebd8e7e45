package mutants

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Run puts each mutant into a copy of the tree at root, from its patch in a folder, and tells out what came of it. A mutant is caught
// when the tree builds with it, its test fails, the failing test names the invariant, and the same test passes without it. The error
// says which were not caught. env is given to the tests.
func Run(ctx context.Context, root, patches string, mutants []Mutant, env []string, out io.Writer) (err error) {
	// Without its links, so that git sees where a repository may not be looked for.
	dir, err := os.MkdirTemp("", "harness-mutants-")
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return fmt.Errorf("make room for a copy of the tree: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := clone(ctx, root, dir); err != nil {
		return err
	}
	t := tree{dir: dir, env: append(env, "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))}
	var left []string
	for i, m := range mutants {
		fmt.Fprintf(out, "%d/%d %s: %s\n", i+1, len(mutants), m.Name, m.Wrong)
		begun := time.Now()
		output, err := t.try(ctx, filepath.Join(patches, m.Name+".patch"), m)
		took := time.Since(begun).Round(time.Second)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			left = append(left, m.Name)
			fmt.Fprintf(out, "    NOT CAUGHT, %s: %v\n%s", took, err, tail(output))
			continue
		}
		fmt.Fprintf(out, "    caught, %s: %s %s: %s\n", took, m.Package, m.Test, m.Invariant)
	}
	fmt.Fprintf(out, "%d of %d mutants caught\n", len(mutants)-len(left), len(mutants))
	if len(left) > 0 {
		return fmt.Errorf("not caught: %s", strings.Join(left, ", "))
	}
	return nil
}

// try tries one mutant and leaves the tree as it was. The output is of the run of the test that decided.
func (t tree) try(ctx context.Context, patch string, m Mutant) (output string, err error) {
	output, err = t.test(ctx, m)
	if err == nil {
		err = m.sound(output)
	}
	if err != nil {
		return output, err
	}
	if err := t.patch(ctx, patch, false); err != nil {
		return "", fmt.Errorf("%w: the patch does not apply: %w", ErrNotFair, err)
	}
	defer func() { err = errors.Join(err, t.patch(context.WithoutCancel(ctx), patch, true)) }()
	if err := t.build(ctx); err != nil {
		return "", fmt.Errorf("%w: the mutant does not build: %w", ErrNotFair, err)
	}
	output, err = t.test(ctx, m)
	if err == nil {
		err = m.caught(output)
	}
	return output, err
}

// shown is how many lines of a test's output are shown when a mutant was not caught.
const shown = 40

// tail are the last lines of an output, set in.
func tail(output string) string {
	lines := strings.Split(strings.TrimRight(output, "\n"), "\n")
	if len(lines) > shown {
		lines = lines[len(lines)-shown:]
	}
	var b strings.Builder
	for _, line := range lines {
		if line != "" {
			b.WriteString("        " + line + "\n")
		}
	}
	return b.String()
}
