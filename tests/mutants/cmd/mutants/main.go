// Command mutants puts the named mutants into a copy of the tree, or all of them, and ends with 1 when a test does not find one:
// mutants [NAME…]. It runs on the stack that is up, from inside the checkout.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/rein-aharness/harness/tests/mutants"
	"github.com/rein-aharness/harness/tests/stack"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, names []string) error {
	root, err := stack.Checkout()
	if err != nil {
		return err
	}
	folder, err := stack.Folder()
	if err != nil {
		return err
	}
	chosen, err := choose(names)
	if err != nil {
		return err
	}
	patches := filepath.Join(root, "tests", "mutants", "testdata")
	return mutants.Run(ctx, root, patches, chosen, []string{"HARNESS_STACK=" + folder}, os.Stdout)
}

// choose are the mutants with the names, and all without a name.
func choose(names []string) ([]mutants.Mutant, error) {
	all := mutants.All()
	if len(names) == 0 {
		return all, nil
	}
	var chosen []mutants.Mutant
	for _, name := range names {
		i := slices.IndexFunc(all, func(m mutants.Mutant) bool { return m.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no mutant %q", name)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}
