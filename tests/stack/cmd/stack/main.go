// Command stack starts and stops the local stack: stack up | down | status | with COMMAND….
//
// with runs a command on the stack, and stops the stack afterwards if it was not running before, unless KEEP=1. It ends with the
// command's exit code.
//
// The state folder is .stack in the checkout, or the value of HARNESS_STACK.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/rein-aharness/harness/tests/stack"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:])
	var command *exec.ExitError
	if errors.As(err, &command) {
		os.Exit(command.ExitCode()) // it has said itself what is wrong
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "stack:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string) error {
	if len(arguments) == 0 {
		return fmt.Errorf("usage: stack up | down | status | with COMMAND…")
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
	case "with":
		return with(ctx, dir, arguments[1:])
	default:
		return fmt.Errorf("unknown command %q: up, down, status or with", arguments[0])
	}
}

// with runs a command while the stack is up. An interrupt reaches the command too; the stack is stopped after it in any case.
func with(ctx context.Context, dir string, arguments []string) (err error) {
	if len(arguments) == 0 {
		return errors.New("with: no command")
	}
	running, err := stack.Status(dir, io.Discard)
	if err != nil && !errors.Is(err, stack.ErrNotUp) {
		return err
	}
	if !running && os.Getenv("KEEP") != "1" {
		defer func() { err = errors.Join(err, stack.Down(context.WithoutCancel(ctx), dir, os.Stdout)) }()
	}
	if err := stack.Up(ctx, dir, os.Stdout); err != nil {
		return err
	}
	command := exec.CommandContext(ctx, arguments[0], arguments[1:]...)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = time.Minute
	return command.Run()
}
