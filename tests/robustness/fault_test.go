package robustness_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/stretchr/testify/require"
)

// fault is one kind of trouble. draw decides everything about one occurrence by the seed, and do makes it happen and go away again;
// it returns when the fault is over. What it is done to is locked meanwhile.
type fault struct {
	name   string
	weight int
	draw   func(r *rand.Rand) (target *sync.Mutex, do func(ctx context.Context) error)
}

// list is every kind of trouble, or those that the environment names.
func (s *soak) list() []fault {
	faults := []fault{
		{"worker killed", 10, s.onWorker(func(r *rand.Rand, w *worker) func(context.Context) error { return w.kill })},
		{"worker stopped", 8, s.onWorker(func(r *rand.Rand, w *worker) func(context.Context) error {
			d := between(r, 500*time.Millisecond, 10*time.Second)
			return func(ctx context.Context) error { return w.stop(ctx, d) }
		})},
		{"worker drained", 4, s.onWorker(func(r *rand.Rand, w *worker) func(context.Context) error { return w.drain })},
		{"failpoint", 12, s.onWorker(s.drawFailpoint)},
		{"container killed", 4, s.drawContainer},
		{"backends terminated", 5, s.drawTermination},
		{"paused", 1, s.drawPause},
	}
	for _, p := range s.proxies {
		faults = append(faults,
			fault{p.Name + " slow", 3, p.draw(4*time.Second, func(ctx context.Context, r draws) error {
				return p.poison(ctx, "latency", r.stream, map[string]int64{"latency": r.small, "jitter": r.small / 4}, r.lasts)
			})},
			fault{p.Name + " reset", 3, p.draw(2*time.Second, func(ctx context.Context, r draws) error {
				return p.poison(ctx, "reset_peer", r.stream, map[string]int64{"timeout": r.small / 4}, r.lasts)
			})},
			fault{p.Name + " half open", 3, p.draw(5*time.Second, func(ctx context.Context, r draws) error {
				return p.poison(ctx, "timeout", r.stream, map[string]int64{"timeout": 0}, r.lasts)
			})},
			fault{p.Name + " down", 2, p.draw(4*time.Second, func(ctx context.Context, r draws) error { return p.cut(ctx, r.lasts) })},
		)
	}
	if only := os.Getenv(faultsVariable); only != "" {
		faults = slices.DeleteFunc(faults, func(f fault) bool { return !slices.Contains(strings.Split(only, ","), f.name) })
		require.NotEmpty(s.t, faults, "%s names none", faultsVariable)
	}
	return faults
}

// How much trouble there is at a time, and how soon the next comes.
const (
	troubles   = 2
	nextAfter  = 500 * time.Millisecond
	nextWithin = 4 * time.Second
)

// disturb makes trouble until ctx ends, and returns when all of it is over.
func (s *soak) disturb(ctx context.Context, faults []fault, r *rand.Rand) {
	total := 0
	for _, f := range faults {
		total += f.weight
	}
	var under sync.WaitGroup
	defer under.Wait()
	at := make(chan struct{}, troubles)
	for pause(ctx, between(r, nextAfter, nextWithin)) {
		n := r.IntN(total)
		i := 0
		for ; n >= faults[i].weight; i++ {
			n -= faults[i].weight
		}
		target, do := faults[i].draw(r)
		at <- struct{}{}
		under.Go(func() {
			defer func() { <-at }()
			if !target.TryLock() {
				return
			}
			defer target.Unlock()
			s.mu.Lock()
			s.faults[faults[i].name]++
			s.mu.Unlock()
			s.wrong(faults[i].name, do(ctx))
		})
	}
}

// onWorker draws one of the workers but the first, which lives as long as the whole, so that what grows is seen to.
func (s *soak) onWorker(draw func(*rand.Rand, *worker) func(context.Context) error) func(*rand.Rand) (*sync.Mutex, func(context.Context) error) {
	return func(r *rand.Rand) (*sync.Mutex, func(context.Context) error) {
		w := s.workers[1+r.IntN(len(s.workers)-1)]
		return &w.busy, draw(r, w)
	}
}

// drawFailpoint starts a worker again that ends, stops, waits or fails between two steps.
func (s *soak) drawFailpoint(r *rand.Rand, w *worker) func(context.Context) error {
	points := []string{
		"resolve.before", "preflight.started", "preflight.after", "sandbox.before", "session.before", "session.after", "capture.after",
		"teardown.before", "teardown.after", "accept.before_intent", "accept.after_intent", "accept.before_send", "accept.after_send",
		"close.before", "close.after_sign", "close.after",
	}
	actions := []string{"kill", "kill", "stop", "error", "sleep:4s"}
	arm := points[r.IntN(len(points))] + "=" + actions[r.IntN(len(actions))]
	lasts := between(r, 3*time.Second, 8*time.Second)
	return func(ctx context.Context) error {
		if err := w.restart(context.WithoutCancel(ctx), arm); err != nil {
			return err
		}
		// Whatever the point stops goes on again.
		for end := time.Now().Add(lasts); time.Now().Before(end) && pause(ctx, 250*time.Millisecond); {
			if w.stopped() {
				pause(ctx, ttl+ttl/2)
				w.signal(syscall.SIGCONT)
			}
		}
		return w.restart(context.WithoutCancel(ctx), "")
	}
}

// drawContainer kills a sandbox from outside.
func (s *soak) drawContainer(r *rand.Rand) (*sync.Mutex, func(context.Context) error) {
	n := r.IntN(1 << 16)
	return new(sync.Mutex), func(ctx context.Context) error {
		list, err := s.containers(ctx)
		if err != nil || len(list) == 0 {
			return err
		}
		_ = s.engine.ContainerKill(ctx, list[n%len(list)].ID, "KILL") // it may be gone
		return nil
	}
}

// drawTermination ends about half of the connections to the database.
func (s *soak) drawTermination(r *rand.Rand) (*sync.Mutex, func(context.Context) error) {
	n := r.IntN(2)
	return new(sync.Mutex), func(ctx context.Context) error {
		_, err := s.db.Exec(context.WithoutCancel(ctx), `
			SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = $1 AND pid % 2 = $2`, disturbed, n)
		return err
	}
}

// drawPause pauses the harness for a while.
func (s *soak) drawPause(r *rand.Rand) (*sync.Mutex, func(context.Context) error) {
	d := between(r, time.Second, 4*time.Second)
	return new(sync.Mutex), func(ctx context.Context) error {
		if err := s.watcher.Store().Pause(context.WithoutCancel(ctx), "test", "a fault"); err != nil {
			return err
		}
		pause(ctx, d)
		return s.watcher.Store().Resume(context.WithoutCancel(ctx))
	}
}

// draws are what the seed decides about one trouble on a way.
type draws struct {
	lasts  time.Duration
	small  int64 // milliseconds, up to 800
	stream string
}

func (p *proxy) draw(longest time.Duration, do func(context.Context, draws) error) func(*rand.Rand) (*sync.Mutex, func(context.Context) error) {
	return func(r *rand.Rand) (*sync.Mutex, func(context.Context) error) {
		d := draws{
			// More often short than long.
			lasts: min(between(r, 200*time.Millisecond, longest), between(r, 200*time.Millisecond, longest)), small: 50 + r.Int64N(750),
			stream: []string{"upstream", "downstream"}[r.IntN(2)],
		}
		return &p.busy, func(ctx context.Context) error { return do(ctx, d) }
	}
}

// heal ends all trouble that may be left.
func (s *soak) heal() {
	ctx := context.WithoutCancel(s.t.Context())
	for _, p := range s.proxies {
		p.Toxics.ResetToxics(ctx)
	}
	s.wrong("resume", s.watcher.Store().Resume(ctx))
	for _, w := range s.workers {
		w.signal(syscall.SIGCONT)
	}
}

// containers are this deployment's on the engine, in any state.
func (s *soak) containers(ctx context.Context) ([]container.Summary, error) {
	list, err := s.engine.ContainerList(ctx, container.ListOptions{All: true, Filters: s.ours()})
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	return list, nil
}
