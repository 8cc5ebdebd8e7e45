// Command initbin is the in-container init alone: the tests mount it where a release mounts the harness binary.
package main

import (
	"os"

	"github.com/rein-aharness/harness/sandbox/internal/guest"
)

func main() {
	if len(os.Args) < 2 || os.Args[1] != guest.Command {
		os.Exit(64)
	}
	os.Exit(guest.Main(os.Args[2:]))
}
