package harness

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rein-aharness/harness/internal/machine"
	"github.com/rein-aharness/harness/queue"
	"github.com/rein-aharness/harness/sandbox"
)

// Version is the version of the product that workers register with.
const Version = "0.1.0"

// Work serves the queue until ctx ends, and then drains: nothing more is claimed, and what is at hand goes on to its end, heartbeats
// included, within the drain's bound.
func (h *Harness) Work(ctx context.Context) error {
	return h.serve(ctx, "")
}

// Attend serves the queue of one attended run until that run has left it: it is final, or waits for the remote or an operator,
// which any worker may see to. It returns the run as it then is. (A13)
func (h *Harness) Attend(ctx context.Context, run queue.Run) (queue.Run, error) {
	serving, stop := context.WithCancel(ctx)
	defer stop()
	both, serving := errgroup.WithContext(serving)
	both.Go(func() error { return h.serve(serving, run.Queue) })
	both.Go(func() (err error) {
		defer stop()
		run, err = h.Wait(serving, run.ID)
		return err
	})
	err := both.Wait()
	return run, err
}

// waitPoll is how often a run that is waited for is looked at.
const waitPoll = 200 * time.Millisecond

// Wait returns when the run is final, or waits for the remote or an operator; or with ctx's error.
func (h *Harness) Wait(ctx context.Context, id string) (queue.Run, error) {
	for {
		run, err := h.store.Run(ctx, id)
		if err != nil {
			return run, err
		}
		if run.State.Final() || run.NextCheckAt != nil {
			return run, nil
		}
		select {
		case <-ctx.Done():
			return run, context.Cause(ctx)
		case <-time.After(waitPoll):
		}
	}
}

func (h *Harness) serve(ctx context.Context, queueName string) error {
	config := queue.WorkerConfig{
		Claimant: queue.Claimant{
			WorkerID: h.config.Worker.ID, Nonce: h.nonce, Engine: h.config.Engine.Name, Queue: queueName,
		},
		Version: Version, Concurrency: h.config.Worker.Concurrency, Admit: h.room,
		Drain: time.Duration(h.config.Worker.DrainSeconds) * time.Second,
	}
	if queueName == "" {
		config.Chores = h.chores()
		config.Emit = h.emitScheduled
	}
	worker, err := queue.NewWorker(h.store, config, h)
	if err != nil {
		return err
	}
	// The helpers outlive the worker's drain: its sessions still need a token that is renewed.
	helping, stop := context.WithCancel(context.WithoutCancel(ctx))
	helpers, helping := errgroup.WithContext(helping)
	helpers.Go(func() error { return h.vault.Run(helping) })
	helpers.Go(func() error { return h.tidy(helping) })
	err = worker.Run(ctx)
	stop()
	if helped := helpers.Wait(); !errors.Is(helped, context.Canceled) {
		err = errors.Join(err, helped)
	}
	return err
}

// room says whether the machine has memory and disk for one more run. A machine that does not say has none.
func (h *Harness) room() (bool, string) {
	memory, err := machine.FreeMemory()
	if err != nil {
		return false, err.Error()
	}
	if memory < h.config.Worker.MinFreeMemoryBytes {
		return false, fmt.Sprintf("%d bytes of memory are free, %d are needed", memory, h.config.Worker.MinFreeMemoryBytes)
	}
	disk, err := machine.FreeDisk(h.config.Git.CacheDir)
	if err != nil {
		return false, err.Error()
	}
	if disk < h.config.Worker.MinFreeDiskBytes {
		return false, fmt.Sprintf("%d bytes of disk are free, %d are needed", disk, h.config.Worker.MinFreeDiskBytes)
	}
	return true, ""
}

// tidyEvery is the time between two looks for sandboxes that nobody holds.
const tidyEvery = 2 * time.Second

// tidy removes, from this worker's engine, sandboxes whose lease is gone. Each worker looks after its own engine. (A25)
func (h *Harness) tidy(ctx context.Context) error {
	for {
		_, err := h.venue.Janitor(ctx, h.store.Now(), func(l sandbox.Labels) (bool, error) {
			if strings.HasPrefix(l.Run, probePrefix) {
				return false, nil
			}
			held, err := h.store.Holds(ctx, l.Run, l.Epoch)
			return !held, err
		})
		if err != nil && ctx.Err() == nil {
			h.log.Warn("tidy the engine", "engine", h.config.Engine.Name, "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(tidyEvery):
		}
	}
}
