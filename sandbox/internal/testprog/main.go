// Command testprog is what the tests run inside sandboxes: one static program with a name for each thing that a session might do,
// honest or not. It starts itself again where it needs a second process.
package main

import (
	"fmt"
	"os"
)

func main() {
	commands := map[string]func(args []string) error{
		"echo": echo, "env": env, "exit": exit, "die": die, "sleep": sleep, "line": line, "background": background, "orphans": orphans,
		"forkbomb": forkbomb, "stubborn": stubborn, "eat": eat, "fill": fill, "inodes": inodes,
		"write": write, "mkfifo": mkfifo, "socket": socket, "sparse": sparse, "chmod": chmod, "link": link, "symlink": symlink,
		"deep": deep, "remove": remove, "dial": dial, "interfaces": interfaces, "touch": touch, "attack": attack, "cat": cat, "descriptors": descriptors,
	}
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: testprog COMMAND [ARG…]")
		os.Exit(64)
	}
	if err := commands[os.Args[1]](os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
