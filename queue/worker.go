package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/rein-aharness/harness/internal/boottime"
)

// Handler does the work that a lease is for. It keeps the lease (Lease.Keep) for as long as the work goes on, and tears down what it
// has begun on a fresh context. It closes or defers the run, or releases a run that it has not started; an error is logged, and
// a run that is neither is taken up again once its lease has expired. Its context ends when the drain's time is over.
type Handler interface {
	// Execute follows the chain for a run that was claimed.
	Execute(ctx context.Context, lease *Lease) error
	// Reconcile settles a run that was taken over.
	Reconcile(ctx context.Context, lease *Lease) error
}

// WorkerConfig says what one worker process takes on.
type WorkerConfig struct {
	Claimant
	// Version of the binary, for the operator.
	Version string
	// Concurrency is how many runs are worked on at once; default 2. As many again may be settled.
	Concurrency int
	// Admit says whether the machine has room for one more run, and why not. nil means it always has.
	Admit func() (ok bool, why string)
	// Drain is how long a worker that was asked to stop lets its runs go on; default 10 minutes. Then their contexts end.
	Drain time.Duration
	// Tick is the time between two looks for what has no live job; default 2 s.
	Tick time.Duration
	// Emit makes the run of a tick of a schedule; nil emits none. The same tick may be given twice. (A15)
	Emit func(ctx context.Context, t Scheduled) (Run, error)
	// Chores are done now and then by one process at a time.
	Chores []Chore
}

// Chore is work that one process at a time does.
type Chore struct {
	Name  string
	Every time.Duration
	Do    func(ctx context.Context) error
}

func (c WorkerConfig) withDefaults() WorkerConfig {
	if c.Concurrency == 0 {
		c.Concurrency = 2
	}
	if c.Admit == nil {
		c.Admit = func() (bool, string) { return true, "" }
	}
	if c.Drain == 0 {
		c.Drain = 10 * time.Minute
	}
	if c.Tick == 0 {
		c.Tick = 2 * time.Second
	}
	return c
}

// Worker claims and works on runs, settles what others left behind, and delivers results. With a Queue in its claimant it serves
// that queue's attended runs and nothing else.
type Worker struct {
	store   *Store
	config  WorkerConfig
	handler Handler
	river   *river.Client[pgx.Tx]
}

// NewWorker prepares a worker; Run starts it.
func NewWorker(s *Store, config WorkerConfig, handler Handler) (*Worker, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	w := &Worker{store: s, config: config, handler: handler}
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(w.run))
	river.AddWorker(workers, river.WorkFunc(w.reconcile))
	river.AddWorker(workers, river.WorkFunc(w.deliver))
	client, err := river.NewClient(riverpgxv5.New(s.pool), &river.Config{
		ID:                config.Owner(),
		Queues:            config.queues(),
		Workers:           workers,
		JobTimeout:        -1, // the lease bounds the work
		FetchCooldown:     20 * time.Millisecond,
		FetchPollInterval: time.Second,
		PollOnly:          s.config.TransactionPooling,
		SoftStopTimeout:   config.Drain,
		Logger:            s.config.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("prepare River: %w", err)
	}
	w.river = client
	return w, nil
}

func (c WorkerConfig) queues() map[string]river.QueueConfig {
	if c.Queue != "" {
		return map[string]river.QueueConfig{c.Queue: {MaxWorkers: c.Concurrency}}
	}
	return map[string]river.QueueConfig{
		queueRun:       {MaxWorkers: c.Concurrency},
		queueReconcile: {MaxWorkers: c.Concurrency},
		queueDeliver:   {MaxWorkers: 4},
	}
}

// Run works until ctx ends. Then it claims nothing more and lets the runs at hand go on, heartbeats included, for the drain's time.
// (CASES 10)
func (w *Worker) Run(ctx context.Context) error {
	if err := w.store.showWorker(ctx, w.config); err != nil {
		return err
	}
	// What a worker that is asked to stop still does goes on under contexts of its own.
	own := context.WithoutCancel(ctx)
	if err := w.river.Start(own); err != nil {
		return fmt.Errorf("start River: %w", err)
	}
	var loops sync.WaitGroup
	showing, stopShowing := context.WithCancel(own)
	defer stopShowing()
	loops.Go(func() { w.show(showing) })
	loops.Go(func() { w.tick(ctx) })
	if w.config.Queue == "" {
		loops.Go(func() { w.chores(ctx) })
	}
	if w.config.Emit != nil {
		for range emitters {
			loops.Go(func() { w.emit(ctx) })
		}
	}
	<-ctx.Done()
	stopped := w.river.Stop(own)
	stopShowing()
	loops.Wait()
	if stopped != nil {
		stopped = fmt.Errorf("stop River: %w", stopped)
	}
	end, cancel := context.WithTimeout(own, w.store.config.TTL)
	defer cancel()
	return errors.Join(stopped, w.store.stopWorker(end, w.config.Owner()))
}

// every calls do at once and then after each interval, until ctx ends.
func every(ctx context.Context, interval time.Duration, do func()) {
	again := time.NewTicker(interval)
	defer again.Stop()
	for {
		do()
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}
	}
}

// warn logs a failure of what will be tried again, unless the worker is stopping.
func (w *Worker) warn(ctx context.Context, what string, err error) {
	if err != nil && ctx.Err() == nil {
		w.store.config.Logger.Warn(what+" failed; it will be tried again", "error", err)
	}
}

func (w *Worker) show(ctx context.Context) {
	every(ctx, w.store.config.Beat, func() { w.warn(ctx, "showing this worker", w.store.showWorker(ctx, w.config)) })
}

func (w *Worker) tick(ctx context.Context) {
	every(ctx, w.config.Tick, func() {
		_, err := w.store.Tick(ctx)
		w.warn(ctx, "the tick", err)
		w.warn(ctx, "looking at the schedules", w.store.Look(ctx))
	})
}

// emitters is how many ticks of schedules one process emits at once, so that a remote that does not answer holds up no other.
const emitters = 2

// emit emits ticks until there is none left. One that was begun is ended, also when the worker is asked to stop.
func (w *Worker) emit(ctx context.Context) {
	every(ctx, w.config.Tick, func() {
		for ctx.Err() == nil {
			more, err := w.store.EmitScheduled(context.WithoutCancel(ctx), w.config.Emit)
			w.warn(ctx, "an emission", err)
			if !more {
				return
			}
		}
	})
}

func (w *Worker) chores(ctx context.Context) {
	every(ctx, w.config.Tick, func() {
		for _, c := range w.config.Chores {
			mine, err := w.store.turn(ctx, c.Name, w.config.Owner(), c.Every)
			w.warn(ctx, "chore "+c.Name, err)
			if !mine {
				continue
			}
			err = c.Do(ctx)
			w.warn(ctx, "chore "+c.Name, err)
			w.warn(ctx, "chore "+c.Name, w.store.choreDone(ctx, c.Name, err))
		}
	})
}

// run is one attempt to claim and work on a run.
func (w *Worker) run(ctx context.Context, j *river.Job[runArgs]) error {
	if !w.admitted(ctx) {
		return nil // the tick dispatches the run again
	}
	claimant := w.config.Claimant
	claimant.Epoch = j.Args.Epoch
	lease, err := w.store.Claim(ctx, j.Args.Run, claimant)
	if err != nil {
		return w.unclaimed(err)
	}
	w.work(ctx, lease, w.handler.Execute)
	return nil
}

// reconcile is one attempt to take over and settle a run.
func (w *Worker) reconcile(ctx context.Context, j *river.Job[reconcileArgs]) error {
	claimant := w.config.Claimant
	claimant.Epoch = j.Args.Epoch
	lease, err := w.store.TakeOver(ctx, j.Args.Run, claimant, false)
	if err != nil {
		return w.unclaimed(err)
	}
	w.work(ctx, lease, w.handler.Reconcile)
	return nil
}

// unclaimed tells what is in the order of things from what the operator should see. Either way the job has ended, and the tick
// dispatches the run again if it still needs one.
func (w *Worker) unclaimed(err error) error {
	if errors.Is(err, ErrNotClaimable) || errors.Is(err, ErrRefLocked) || errors.Is(err, ErrRepositoryBusy) || errors.Is(err, ErrPaused) {
		w.store.config.Logger.Debug("not claimed", "reason", err)
		return nil
	}
	w.store.config.Logger.Error("not claimed", "error", err)
	return err
}

// work lets the handler act for the run, and gives back what it has left: at once when the worker is asked to stop. What has failed is
// left to expire. So the leases pace the attempts at something that is in the way for long, Vault or the signing key, and the
// evidence, which every attempt adds to, stays bounded by them.
func (w *Worker) work(ctx context.Context, lease *Lease, do func(context.Context, *Lease) error) {
	log := w.store.config.Logger.With("run", lease.run.ID, "epoch", lease.run.Epoch)
	err := do(ctx, lease)
	if err != nil {
		log.Error("the run's work ended with an error", "error", err)
	}
	if !lease.Held() || err != nil && ctx.Err() == nil {
		return
	}
	// Neither closed nor deferred. What was not started goes back; the rest expires and is settled.
	release, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.store.config.TTL)
	defer cancel()
	if err := lease.Release(release); err != nil {
		log.Warn("the run was left to expire", "error", err)
	}
}

// admitted waits for room, for no longer than half a TTL: then another worker may have it.
func (w *Worker) admitted(ctx context.Context) bool {
	asked := boottime.Now()
	for {
		ok, why := w.config.Admit()
		if ok {
			return true
		}
		if boottime.Since(asked) > w.store.config.TTL/2 {
			w.store.config.Logger.Info("no room for another run", "reason", why)
			return false
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(time.Second):
		}
	}
}

func (w *Worker) deliver(ctx context.Context, j *river.Job[deliverArgs]) error {
	err := w.store.Deliver(ctx, j.Args.Delivery)
	if err != nil {
		w.store.config.Logger.Warn("delivery failed", "delivery", j.Args.Delivery, "attempt", j.Args.Attempt, "error", err)
	}
	return err
}
