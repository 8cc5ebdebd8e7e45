package main

import (
	"os"

	"github.com/rein-aharness/harness/sandbox"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == sandbox.InitCommand {
		os.Exit(sandbox.RunInit(os.Args[2:]))
	}
	os.Exit(int(run(os.Args[1:], streams{in: os.Stdin, out: os.Stdout, err: os.Stderr})))
}
