package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rein-aharness/harness/internal/boottime"
	"github.com/rein-aharness/harness/internal/failpoint"
)

// holds is how much longer a lease may be trusted whose last renewal was asked for so long ago. That time is counted by the machine
// since its start: the monotonic clock of a process stands still while the machine is suspended, and the time of day can be set back;
// either would make a lease look fresh. (CASES 14)
func (c Config) holds(since time.Duration) time.Duration { return c.TTL - c.Margin - since }

// Keep renews the lease until stop is called, and gives a context that ends when the lease is lost: its cause is ErrLeaseLost, and
// ErrCancelRequested as well when that was why. A heartbeat that fails is sent again as long as the lease lasts; one that is
// rejected is final. (A38, CASES 7, 11, 14)
//
// stop waits for a heartbeat that is under way. It is called once the work has ended, not when it is asked to end. (CASES 10)
func (l *Lease) Keep(ctx context.Context) (kept context.Context, stop func()) {
	kept, cancel := context.WithCancelCause(ctx)
	// Heartbeats outlive the caller's context: as long as the work goes on, so do they.
	beating, end := context.WithCancel(context.WithoutCancel(ctx))
	var loops sync.WaitGroup
	loops.Go(func() { l.beat(beating, cancel) })
	loops.Go(func() { l.watch(beating, cancel) })
	return kept, func() {
		end()
		loops.Wait()
		cancel(context.Canceled)
	}
}

// beat sends heartbeats. One that fails is sent again at once if it took long to: what is left of the lease must do for a new
// connection.
func (l *Lease) beat(ctx context.Context, lost context.CancelCauseFunc) {
	config := l.store.config
	retry := max(config.Beat/8, 10*time.Millisecond)
	for wait := config.Beat; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = config.Beat
		sent := boottime.Now()
		err := l.heartbeat(ctx)
		switch {
		case err == nil || ctx.Err() != nil:
		case errors.Is(err, ErrLeaseLost):
			lost(err)
			return
		default:
			config.Logger.Warn("heartbeat failed", "run", l.run.ID, "epoch", l.run.Epoch, "error", err)
			wait = max(0, retry-boottime.Since(sent))
		}
	}
}

// watch ends the work when the lease runs out unrenewed, also while a heartbeat hangs.
func (l *Lease) watch(ctx context.Context, lost context.CancelCauseFunc) {
	look := time.NewTicker(max(min(l.store.config.Beat/10, 500*time.Millisecond), time.Millisecond))
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		l.mu.Lock()
		done := l.done
		l.mu.Unlock()
		if done {
			return
		}
		if _, err := l.left(); err != nil {
			lost(err)
			return
		}
	}
}

// heartbeat renews the lease by one TTL of the database's clock.
func (l *Lease) heartbeat(ctx context.Context) error {
	l.mu.Lock()
	done := l.done
	l.mu.Unlock()
	if done {
		return nil
	}
	left, err := l.left()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, min(left, l.store.config.Beat))
	defer cancel()
	requested := boottime.Now()
	operation := failpoint.Begin("heartbeat", l.run.ID, l.run.Owner, l.run.Epoch)
	var held, cancelled bool
	var now time.Time
	// Without a prepared statement a new connection is good for it in one round trip.
	err = l.store.beats.QueryRow(ctx, `
		WITH renewed AS (
			UPDATE ops_run SET lease_expires_at = clock_timestamp() + $4 * interval '1 millisecond'
			WHERE id = $1 AND lease_epoch = $2 AND lease_owner = $3 AND lease_expires_at > clock_timestamp()
			RETURNING id)
		SELECT EXISTS (SELECT FROM renewed), (SELECT cancel_requested_at IS NOT NULL FROM ops_run WHERE id = $1),
			clock_timestamp()`, pgx.QueryExecModeExec,
		l.run.ID, l.run.Epoch, l.run.Owner, l.store.config.TTL.Milliseconds()).Scan(&held, &cancelled, &now)
	if err != nil {
		operation.End(l.run.Epoch, err)
		l.store.noteError(err)
		return fmt.Errorf("heartbeat of run %s: %w", l.run.ID, err)
	}
	l.store.clock.saw(now, requested)
	var rejected error
	if !held {
		rejected = ErrLeaseLost
	}
	operation.End(l.run.Epoch, rejected)
	l.mu.Lock()
	done = l.done
	if held {
		l.beatAt = requested
	}
	l.mu.Unlock()
	if held || done {
		return nil
	}
	return l.lose(cancelled && l.kind == kindRun)
}
