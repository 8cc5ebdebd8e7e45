package sandbox

import "github.com/rein-aharness/harness/sandbox/internal/guest"

// InitCommand is the argument under which the harness binary is PID 1 of a sandbox, or one of its helpers.
const InitCommand = guest.Command

// RunInit is the entry of InitCommand: args are what follows it. It returns the process's exit code. It is called before anything
// else, so that the in-container process does nothing but this.
func RunInit(args []string) int { return guest.Main(args) }
