// Command stack starts and stops the local stack: stack up | down | status.
//
// The state folder is .stack in the checkout, or the value of HARNESS_STACK.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/rein-aharness/harness/tests/stack"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "stack:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string) error {
	if len(arguments) == 0 {
		return fmt.Errorf("usage: stack up | down | status")
	}
	if arguments[0] == "serve-git" { // the child process that Up starts
		flags := flag.NewFlagSet("serve-git", flag.ContinueOnError)
		dir := flags.String("dir", "", "state folder")
		root := flags.String("root", "", "folder of the repositories")
		if err := flags.Parse(arguments[1:]); err != nil {
			return err
		}
		return stack.ServeGit(ctx, *dir, *root)
	}
	dir, err := stack.Folder()
	if err != nil {
		return err
	}
	switch arguments[0] {
	case "up":
		return stack.Up(ctx, dir, os.Stdout)
	case "down":
		return stack.Down(ctx, dir, os.Stdout)
	case "status":
		all, err := stack.Status(dir, os.Stdout)
		if err == nil && !all {
			err = fmt.Errorf("not all of the stack is running")
		}
		return err
	default:
		return fmt.Errorf("unknown command %q: up, down or status", arguments[0])
	}
}
