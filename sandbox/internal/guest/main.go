package guest

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/rein-aharness/harness/sandbox/internal/wire"
)

// Fixed places inside every sandbox. The worker mounts each of them.
const (
	Workspace = "/workspace"
	Home      = "/home/agent"
	Tmp       = "/tmp"
	RunDir    = "/run/harness" // credentials and the task, tmpfs
	InitDir   = "/.harness"    // the binary, read-only
	InitPath  = InitDir + "/harness"
)

// Command is the argument of the binary that leads here.
const Command = "init-sandbox"

// Names of the helpers.
const (
	HelperUnpack  = "unpack"
	HelperProbe   = "probe"
	HelperCapture = "capture"
)

// Main runs the init, or a helper when the first argument names one, and returns the exit code.
func Main(args []string) int {
	helpers := map[string]func([]string) error{
		HelperUnpack: runUnpack, HelperProbe: runProbe, HelperCapture: runCapture,
	}
	run := runInit
	if len(args) > 0 {
		if h, ok := helpers[args[0]]; ok {
			run, args = h, args[1:]
		}
	}
	err := run(args)
	if err == nil {
		return wire.HelperOK
	}
	fmt.Fprintln(os.Stderr, err)
	var coded interface{ HelperExit() int }
	if errors.As(err, &coded) {
		return coded.HelperExit()
	}
	return wire.HelperFailed
}

// Options are the init's command line.
type Options struct {
	UID, GID  int
	TTL       time.Duration
	Keepalive time.Duration
}

// Args returns the command line that ParseOptions reads.
func (o Options) Args() []string {
	return []string{
		fmt.Sprintf("--uid=%d", o.UID), fmt.Sprintf("--gid=%d", o.GID),
		"--ttl=" + o.TTL.String(), "--keepalive=" + o.Keepalive.String(),
	}
}

// ParseOptions reads the init's command line; every option is required.
func ParseOptions(args []string) (Options, error) {
	var o Options
	fs := flag.NewFlagSet(Command, flag.ContinueOnError)
	fs.IntVar(&o.UID, "uid", 0, "uid of the session")
	fs.IntVar(&o.GID, "gid", 0, "gid of the session")
	fs.DurationVar(&o.TTL, "ttl", 0, "time to live")
	fs.DurationVar(&o.Keepalive, "keepalive", 0, "keepalive interval of the wire")
	if err := fs.Parse(args); err != nil {
		return Options{}, fmt.Errorf("%s: %w", Command, err)
	}
	if o.UID <= 0 || o.GID <= 0 || o.TTL <= 0 || o.Keepalive <= 0 || fs.NArg() != 0 {
		return Options{}, fmt.Errorf("%s: uid, gid, ttl and keepalive must all be given and positive, and nothing else", Command)
	}
	return o, nil
}

// coded is a helper's error with an exit code of its own.
type coded struct {
	code int
	err  error
}

func (c *coded) Error() string   { return c.err.Error() }
func (c *coded) Unwrap() error   { return c.err }
func (c *coded) HelperExit() int { return c.code }
