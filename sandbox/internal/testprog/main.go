// Command testprog is what the tests run inside sandboxes: one static program with a name for each thing that a session might do,
// honest or not.
package main

import (
	"fmt"
	"os"
)

var commands = map[string]func(args []string) error{
	"echo": func(a []string) error { _, err := fmt.Println(a); return err },
}

func main() {
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: testprog COMMAND [ARG…]")
		os.Exit(64)
	}
	if err := commands[os.Args[1]](os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
