// Command toolbox is the one program of the image "hostile": what a session does in tests, good or bad, without a
// shell.
//
//	toolbox COMMAND [ARGUMENT…] [";" COMMAND [ARGUMENT…]]…
//
// The commands run in order; the first that fails ends the program with status 1 and says why on stderr. Before a
// command, `not` turns failure into success and success into failure, `try` goes on after a failure, and `background`
// leaves it to a process of a session of its own and goes on at once. An argument that begins with "q:" is taken as the
// inside of a Go string: q:a\nb\xff.
//
// `toolbox help` lists the commands.
package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// command is one thing the toolbox does. The arguments are those that usage names, all of them.
type command struct {
	usage string
	run   func(arguments []string) error
}

// errUsage is a fault of the caller, which no prefix takes for an outcome.
var errUsage = errors.New("see toolbox help")

func commands() map[string]command {
	all := map[string]command{}
	for _, group := range []map[string]command{fileCommands, loadCommands, outputCommands, probeCommands} {
		maps.Copy(all, group)
	}
	return all
}

func main() {
	arguments, err := unquote(os.Args[1:])
	if err == nil {
		err = runAll(arguments)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "toolbox:", err)
		os.Exit(1)
	}
}

func unquote(arguments []string) ([]string, error) {
	plain := slices.Clone(arguments)
	for i, argument := range plain {
		quoted, found := strings.CutPrefix(argument, "q:")
		if !found {
			continue
		}
		text, err := strconv.Unquote(`"` + quoted + `"`)
		if err != nil {
			return nil, fmt.Errorf("argument %q: %w", argument, err)
		}
		plain[i] = text
	}
	return plain, nil
}

func runAll(arguments []string) error {
	for len(arguments) > 0 {
		one, rest := arguments, []string(nil)
		if end := slices.Index(arguments, ";"); end >= 0 {
			one, rest = arguments[:end], arguments[end+1:]
		}
		if err := runOne(one); err != nil {
			return err
		}
		arguments = rest
	}
	return nil
}

func runOne(arguments []string) error {
	if len(arguments) == 0 {
		return fmt.Errorf("a command is missing: %w", errUsage)
	}
	name, rest := arguments[0], arguments[1:]
	switch name {
	case "not":
		err := runOne(rest)
		switch {
		case err == nil:
			return fmt.Errorf("%s was not refused", strings.Join(rest, " "))
		case errors.Is(err, errUsage):
			return err
		}
		fmt.Printf("refused: %v\n", err)
		return nil
	case "try":
		err := runOne(rest)
		if err != nil && !errors.Is(err, errUsage) {
			fmt.Printf("failed: %v\n", err)
			return nil
		}
		return err
	case "background":
		return background(rest)
	case "help":
		all := commands()
		for _, name := range slices.Sorted(maps.Keys(all)) {
			fmt.Println(strings.TrimSpace(name + " " + all[name].usage))
		}
		return nil
	}
	chosen, found := commands()[name]
	if !found {
		return fmt.Errorf("unknown command %q: %w", name, errUsage)
	}
	if want := len(strings.Fields(chosen.usage)); len(rest) != want {
		return fmt.Errorf("%s takes %q: %w", name, chosen.usage, errUsage)
	}
	if err := chosen.run(rest); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// background starts this program again with the arguments, detached: a session of its own, no shared output.
func background(arguments []string) error {
	quoted := make([]string, len(arguments))
	for i, argument := range arguments {
		quoted[i] = "q:" + strings.TrimSuffix(strings.TrimPrefix(strconv.QuoteToASCII(argument), `"`), `"`)
	}
	cmd := exec.Command("/proc/self/exe", quoted...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("background: %w", err)
	}
	return cmd.Process.Release()
}
