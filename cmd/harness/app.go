package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"

	"github.com/alecthomas/kong"
	"golang.org/x/term"

	"github.com/rein-aharness/harness"
)

// streams are where a command reads and writes.
type streams struct {
	in  *os.File
	out io.Writer // results
	err io.Writer // errors, and the log
}

// app is what every command is given.
type app struct {
	streams
	Globals
	parser *kong.Kong
}

// attended reports whether a person is at the standard input.
func (s streams) attended() bool { return term.IsTerminal(int(s.in.Fd())) }

// logger logs to standard error, from the level asked for or else from the given one.
func (a *app) logger(level slog.Level) (*slog.Logger, error) {
	if a.LogLevel != "" {
		if err := level.UnmarshalText([]byte(a.LogLevel)); err != nil {
			return nil, misuse("--log-level: %w", err)
		}
	}
	options := &slog.HandlerOptions{Level: level}
	if a.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(a.err, options)), nil
	}
	return slog.New(slog.NewTextHandler(a.err, options)), nil
}

// open reads the configuration and opens the parts that the options name.
func (a *app) open(ctx context.Context, options harness.Options) (*harness.Harness, error) {
	config, err := a.config()
	if err != nil {
		return nil, err
	}
	if options.Logger == nil {
		if options.Logger, err = a.logger(slog.LevelWarn); err != nil {
			return nil, err
		}
	}
	return harness.Open(ctx, config, options)
}

// config reads the configuration.
func (a *app) config() (harness.Config, error) {
	config, err := harness.ReadConfig(a.Config)
	return config, as(codeConfiguration, err)
}

// with opens the parts that the options name, for one use.
func (a *app) with(ctx context.Context, options harness.Options, use func(*harness.Harness) error) (err error) {
	h, err := a.open(ctx, options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close(context.WithoutCancel(ctx))) }()
	return use(h)
}
