package robustness_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/tests/robustness/history"
)

func (s *soak) openEngine() {
	engine, err := client.NewClientWithOpts(client.WithHost(s.Stack.DockerHost()), client.WithAPIVersionNegotiation())
	require.NoError(s.t, err)
	s.t.Cleanup(func() { require.NoError(s.t, engine.Close()) })
	s.engine = engine
}

// ours selects what this deployment has on the engine.
func (s *soak) ours() filters.Args {
	return filters.NewArgs(filters.Arg("label", "harness.engine="+s.Config.Engine.Name))
}

// watchEngine notes when the container of each run's epoch was gone. A restart of the engine ends the stream, and another follows.
func (s *soak) watchEngine(ctx context.Context) {
	for {
		s.watchEvents(ctx)
		if !pause(ctx, time.Second) {
			return
		}
	}
}

func (s *soak) watchEvents(ctx context.Context) {
	filter := s.ours()
	filter.Add("type", "container")
	filter.Add("event", "destroy")
	stream, failed := s.engine.Events(ctx, events.ListOptions{Filters: filter})
	for {
		select {
		case message := <-stream:
			epoch, err := strconv.ParseInt(message.Actor.Attributes["harness.epoch"], 10, 64)
			if err != nil {
				continue // a readiness check's, or of the fixture
			}
			s.mu.Lock()
			s.gone[held{message.Actor.Attributes["harness.run"], epoch}] = time.Unix(0, message.TimeNano)
			s.mu.Unlock()
		case err := <-failed:
			s.watched(ctx, "watch the engine", err)
			return
		}
	}
}

// watchQueue keeps the number of runs that are not final.
func (s *soak) watchQueue(ctx context.Context) {
	for pause(ctx, 200*time.Millisecond) {
		var open int64
		err := s.db.QueryRow(ctx, `SELECT count(*) FROM ops_run WHERE finished_at IS NULL`).Scan(&open)
		if err != nil {
			s.watched(ctx, "count the open runs", err)
			continue
		}
		s.open.Store(open)
	}
}

// watchProcesses samples what the workers' processes use.
func (s *soak) watchProcesses(ctx context.Context) {
	for pause(ctx, 2*time.Second) {
		for _, w := range s.workers {
			sample, err := sampleOf(w.pid(), w.history)
			if err != nil {
				continue // there is no process now
			}
			sample.Worker, sample.At = w.name, time.Since(s.began)
			s.mu.Lock()
			s.samples = append(s.samples, sample)
			s.mu.Unlock()
		}
	}
}

// sampleOf is what the kernel says of a process, and what the process says of itself.
func sampleOf(pid int, log string) (history.Sample, error) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	memory, err := os.ReadFile(filepath.Join(dir, "statm"))
	if err != nil {
		return history.Sample{}, err
	}
	fields := strings.Fields(string(memory))
	if len(fields) < 2 {
		return history.Sample{}, fmt.Errorf("%s/statm says %q", dir, memory)
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return history.Sample{}, err
	}
	descriptors, err := os.ReadDir(filepath.Join(dir, "fd"))
	if err != nil {
		return history.Sample{}, err
	}
	threads, err := os.ReadDir(filepath.Join(dir, "task"))
	if err != nil {
		return history.Sample{}, err
	}
	count, err := os.ReadFile(fmt.Sprintf("%s.%d.goroutines", log, pid))
	if err != nil {
		return history.Sample{}, err // it has not claimed anything yet
	}
	goroutines, err := strconv.Atoi(string(count))
	if err != nil {
		return history.Sample{}, err
	}
	return history.Sample{
		Process: pid, Memory: pages * int64(os.Getpagesize()), Descriptors: len(descriptors), Threads: len(threads), Goroutines: goroutines,
	}, nil
}
