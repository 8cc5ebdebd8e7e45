package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/rein-aharness/harness/evidence"
)

// grammar is the whole command line, as kong reads it.
type grammar struct {
	Globals

	Migrate     migrateCmd     `cmd:"" help:"Bring the database to this binary's schema."`
	Worker      workerCmd      `cmd:"" help:"Serve the queue until told to stop."`
	Emit        emitCmd        `cmd:"" help:"Emit a run of a definition."`
	Attend      attendCmd      `cmd:"" name:"run" help:"Emit a run and execute it here, attended by a person."`
	Runs        runsCmd        `cmd:"" help:"List, show, follow and decide about runs."`
	Definitions definitionsCmd `cmd:"" help:"Apply definitions, and say when they are due and what came of it."`
	Profiles    profilesCmd    `cmd:"" help:"Publish profiles and say how far each can be used."`
	Evidence    evidenceCmd    `cmd:"" help:"Show, verify and export the evidence of runs."`
	Deliveries  deliveriesCmd  `cmd:"" help:"Say what of runs was told outward, and tell again what was not."`
	Reconcile   reconcileCmd   `cmd:"" help:"Settle runs from their remotes now."`
	Pause       pauseCmd       `cmd:"" help:"Stop all claims and publications everywhere."`
	Resume      resumeCmd      `cmd:"" help:"Let go what pause stopped."`
	Doctor      doctorCmd      `cmd:"" help:"Check every part and say how to mend it."`
	Version     versionCmd     `cmd:"" help:"Print the version."`
	Help        helpCmd        `cmd:"" help:"Explain a command, the exit codes, or the code of an error."`
}

// Globals are the flags of every command.
type Globals struct {
	Config    string `help:"The deployment's configuration file. Default: harness.yaml" default:"harness.yaml" env:"HARNESS_CONFIG" placeholder:"FILE"`
	JSON      bool   `help:"Print JSON to standard output."`
	LogLevel  string `help:"What to log to standard error: debug, info, warn or error. Default: info for worker, else warn." enum:"debug,info,warn,error," default:"" placeholder:"LEVEL"`
	LogFormat string `help:"How to log: text or json." enum:"text,json" default:"text" placeholder:"FORMAT"`
}

const description = `Governed agent runs: a request becomes one commit on a git remote, made in a sandbox, accepted under a lease and a
fence, with signed evidence; or it becomes nothing.

Every command explains itself: harness COMMAND --help. What the exit codes mean: harness help exit-codes.
What a code in an error means: harness help errors CODE.`

func newParser(g *grammar, s streams) (*kong.Kong, error) {
	return kong.New(g,
		kong.Name("harness"),
		kong.Description(description),
		kong.Writers(s.out, s.err),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true, FlagsLast: true, WrapUpperBound: 100}),
	)
}

// run is the whole command, from its arguments to its exit code. It prints and logs errors, here only. kong itself exits for --help.
func run(args []string, s streams) evidence.ExitCode {
	var g grammar
	parser, err := newParser(&g, s)
	if err != nil {
		return s.report(err)
	}
	if slices.Equal(args, []string{"--version"}) { // what people ask of any command first
		args = []string{"version"}
	}
	command, err := parser.Parse(args)
	if err != nil {
		return s.report(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The first signal asks to stop; the second one finds the default and ends the process.
	context.AfterFunc(ctx, stop)

	a := &app{streams: s, Globals: g.Globals, parser: parser}
	command.BindTo(ctx, (*context.Context)(nil))
	err = command.Run(a)
	var usage *usageError
	if errors.As(err, &usage) {
		usage.command = command.Selected().FullPath()
	}
	return s.report(err)
}

// report prints an error with what to do next, and gives its exit code.
func (s streams) report(err error) evidence.ExitCode {
	if err != nil {
		s.explain(err)
	}
	return exitOf(err)
}
