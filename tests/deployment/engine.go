package deployment

import (
	"context"
	"crypto/rand"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/tests/stack"
)

// EngineEvents knows every container that the engine created since it began to listen.
type EngineEvents struct {
	docker *client.Client
	image  string

	mu      sync.Mutex
	changed chan struct{}
	created map[string]int // containers by the run they are labelled with
}

const runLabel = "harness.run"

// WatchEngine listens to the stack's engine until the test ends.
func WatchEngine(t testing.TB, st *stack.Stack) *EngineEvents {
	t.Helper()
	docker, err := client.NewClientWithOpts(client.WithHost(st.DockerHost()), client.WithAPIVersionNegotiation())
	require.NoError(t, err)
	e := &EngineEvents{docker: docker, image: st.Image(t, "codemod"), changed: make(chan struct{}, 1), created: map[string]int{}}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	stream, failed := docker.Events(ctx, events.ListOptions{
		Filters: filters.NewArgs(filters.Arg("type", "container"), filters.Arg("event", "create")),
	})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case message := <-stream:
				e.note(message.Actor.Attributes[runLabel])
			case <-failed:
				return
			}
		}
	}()
	t.Cleanup(func() {
		stop()
		<-ended
		require.NoError(t, docker.Close())
	})
	e.catchUp(t)
	return e
}

func (e *EngineEvents) note(run string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.created[run]++
	select {
	case e.changed <- struct{}{}:
	default:
	}
}

func (e *EngineEvents) count(run string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.created[run]
}

// Created is how many containers the engine has created for a run until now.
func (e *EngineEvents) Created(t testing.TB, run string) int {
	t.Helper()
	e.catchUp(t)
	return e.count(run)
}

// catchUp returns when everything that was created before it was called is known: events come in order, and the last one is that
// of a container of its own.
func (e *EngineEvents) catchUp(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	marker := "marker-" + strings.ToLower(rand.Text()[:12])
	for e.count(marker) == 0 {
		made, err := e.docker.ContainerCreate(ctx, &container.Config{Image: e.image, Cmd: []string{"marker"}, Labels: map[string]string{runLabel: marker}},
			nil, nil, nil, marker)
		require.NoError(t, err)
		require.NoError(t, e.docker.ContainerRemove(ctx, made.ID, container.RemoveOptions{Force: true}))
		select {
		case <-e.changed:
		case <-time.After(time.Second): // the listener may not have been there yet
		case <-ctx.Done():
			require.NoError(t, ctx.Err())
		}
	}
}
