package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rein-aharness/harness/queue"
	"github.com/rein-aharness/harness/queue/schedule"
	"github.com/rein-aharness/harness/repotx"
	"github.com/rein-aharness/harness/tests/stack"
)

// keeperVar names the database whose schedules this process is to keep, instead of testing.
const keeperVar = "SCHEDULE_TEST_KEEPER"

func TestMain(m *testing.M) {
	if url := os.Getenv(keeperVar); url != "" {
		fmt.Fprintln(os.Stderr, keep(context.Background(), url))
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

func open(ctx context.Context, url string) (*queue.Store, error) {
	return queue.Open(ctx, queue.Config{
		URL: url, TTL: time.Second, Beat: 200 * time.Millisecond, Margin: 200 * time.Millisecond, MinInterval: time.Millisecond, MaxConnections: 4,
	})
}

// keep looks and emits as a worker does, and without a pause, until it is killed. One in so many emissions loses its answer.
func keep(ctx context.Context, url string) error {
	s, err := open(ctx, url)
	if err != nil {
		return err
	}
	if _, err := fmt.Println("ready"); err != nil {
		return err
	}
	for {
		if err := s.Look(ctx); err != nil {
			return err
		}
		more, err := s.EmitScheduled(ctx, func(ctx context.Context, t queue.Scheduled) (queue.Run, error) {
			r, err := t.Request()
			if err != nil {
				return queue.Run{}, err
			}
			run, _, err := s.Emit(ctx, r, queue.Emission{Pin: pins(r)})
			if err == nil && rand.IntN(200) == 0 {
				return queue.Run{}, errAnswerLost
			}
			return run, err
		})
		if err != nil && !errors.Is(err, errAnswerLost) {
			return err
		}
		if !more {
			time.Sleep(5 * time.Millisecond)
		}
	}
}

var errAnswerLost = errors.New("the answer was lost")

func digestOf(c string) string { return "sha256:" + strings.Repeat(c, 64) }

func definition() queue.Definition {
	return queue.Definition{
		Version: 1, Name: "tick", Repository: "https://git.example/team/tick", BaseRef: "refs/heads/main", TargetRef: "refs/heads/main",
		Task: "format the code", Profile: "codemod@1.0.0#" + digestOf("1"), Grant: repotx.Bounds{Paths: []string{"**/*.go"}},
		Schedule: &schedule.Spec{Every: interval.String(), Missed: schedule.MissedAll, MissedBound: 1000},
	}
}

func pins(r queue.Request) func(context.Context) (queue.Pins, error) {
	return func(context.Context) (queue.Pins, error) {
		repository, err := repotx.Canonical(r.Repository)
		return queue.Pins{
			Repository: repository.ID, Baseline: strings.Repeat("a", 40), Profile: digestOf("1"), Rein: digestOf("2"), Model: digestOf("3"),
			Tools: digestOf("4"), Sandbox: digestOf("5"), Credentials: digestOf("6"),
		}, err
	}
}

const (
	interval = 25 * time.Millisecond
	wanted   = 1000
	keepers  = 4
)

// A15, CASES 6: of a thousand due times each gives one run, however the processes that keep the schedule die, whatever they were at.
// With all of them dead at times, nobody looks for a while; on a machine so slow that more become due meanwhile than the definition's
// bound lets count, those are on record as missed.
func TestThousandTicksAreEmittedOnceThoughTheirKeepersAreKilled(t *testing.T) {
	t.Parallel()
	url := stack.Load(t).DatabaseFrom(t, "queue", queue.Migrate)
	s, err := open(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	_, err = s.Apply(t.Context(), "ada", definition())
	require.NoError(t, err)
	applied, err := s.Definition(t.Context(), "tick")
	require.NoError(t, err)
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))

	alive := make([]*exec.Cmd, keepers)
	kill := func(i int) {
		if alive[i] != nil {
			require.NoError(t, alive[i].Process.Kill())
			_ = alive[i].Wait() // it was killed
			alive[i] = nil
		}
	}
	t.Cleanup(func() {
		for i := range alive {
			kill(i)
		}
	})
	kills := 0
	for emitted := 0; emitted < wanted; emitted = count(t, s, `SELECT count(*) FROM definition_tick WHERE state = 'emitted'`) {
		i := random.IntN(keepers)
		if alive[i] == nil {
			alive[i] = exec.CommandContext(t.Context(), os.Args[0])
			alive[i].Env = append(os.Environ(), keeperVar+"="+url)
			alive[i].Stderr = os.Stderr
			out, err := alive[i].StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, alive[i].Start())
			_, err = io.ReadFull(out, make([]byte, len("ready\n")))
			require.NoError(t, err)
		} else {
			kill(i)
			kills++
		}
		time.Sleep(time.Duration(random.IntN(700)) * time.Millisecond)
	}
	// What was recorded and is still to be emitted, since its keeper died, is emitted by whoever comes.
	for i := range alive {
		kill(i)
	}
	require.Eventually(t, func() bool {
		_, err := s.EmitScheduled(t.Context(), func(ctx context.Context, tick queue.Scheduled) (queue.Run, error) {
			r, err := tick.Request()
			if err != nil {
				return queue.Run{}, err
			}
			run, _, err := s.Emit(ctx, r, queue.Emission{Pin: pins(r)})
			return run, err
		})
		return err == nil && count(t, s, `SELECT count(*) FROM definition_tick WHERE state = 'pending'`) == 0
	}, time.Minute, 5*time.Millisecond)

	var last time.Time // and how many were missed before it: the list begins with the newest
	var missed int
	list, err := s.Ticks(t.Context(), "tick", 1<<20)
	require.NoError(t, err)
	for _, tick := range list {
		require.Equal(t, queue.TickEmitted, tick.State)
		if !last.IsZero() {
			require.Equal(t, interval*time.Duration(1+missed), last.Sub(tick.Due), "a due time is lost or doubled at %s", tick.Due)
		}
		last, missed = tick.Due, tick.Missed
	}
	require.Equal(t, *applied.NextDue, last.Add(-interval*time.Duration(missed)), "the first one is there, or was missed")
	require.Equal(t, len(list), count(t, s, `SELECT count(*) FROM ops_run`), "one run each")
	require.Equal(t, len(list), count(t, s, `SELECT count(*) FROM ops_run o JOIN definition_tick t ON t.run_id = o.id AND t.trigger_key = o.trigger_key`))
	t.Logf("%d due times, %d kills, %d emitted more than once", len(list), kills,
		count(t, s, `SELECT count(*) FROM definition_tick WHERE tries > 1`))
	require.Greater(t, kills, 10)
}

func count(t *testing.T, s *queue.Store, query string) int {
	t.Helper()
	rows, err := s.Pool().Query(t.Context(), query)
	require.NoError(t, err)
	n, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[int])
	require.NoError(t, err)
	return n
}
