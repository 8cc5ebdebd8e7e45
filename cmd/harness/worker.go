package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/rein-aharness/harness"
)

type workerCmd struct{}

func (workerCmd) Help() string {
	return `Claims runs from the queue and executes them on this machine's engine, settles what lost workers left behind, and delivers
results. Any number of workers, on any number of machines, share one database.

The first interrupt or SIGTERM drains: nothing more is claimed, and the runs at hand go on to their end, for worker.drain_seconds
at most. The second one ends the process; its sandboxes end with it and another worker settles its runs.

Examples:

    harness worker --config /etc/harness/harness.yaml
    harness worker --log-format json --log-level debug`
}

func (workerCmd) Run(ctx context.Context, a *app) (err error) {
	log, err := a.logger(slog.LevelInfo)
	if err != nil {
		return err
	}
	h, err := a.open(ctx, harness.Options{Vault: true, Engine: true, Logger: log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close(context.WithoutCancel(ctx))) }()
	log.Info("serving", "worker", h.Config().Worker.ID, "engine", h.Config().Engine.Name, "version", harness.Version)
	context.AfterFunc(ctx, func() { log.Info("draining; a second signal ends the process") })
	if err := h.Work(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	log.Info("stopped")
	return nil
}
