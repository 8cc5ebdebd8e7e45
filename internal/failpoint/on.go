//go:build failpoint

package failpoint

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Point is a place between two steps.
type Point string

// The points inside a stage. Those around a stage go by its name.
const (
	ClaimBefore        Point = "claim.before"
	ClaimAfter         Point = "claim.after"
	PreflightStarted   Point = "preflight.started"
	AcceptBeforeIntent Point = "accept.before_intent"
	AcceptAfterIntent  Point = "accept.after_intent"
	AcceptBeforeSend   Point = "accept.before_send"
	AcceptAfterSend    Point = "accept.after_send"
	CloseBefore        Point = "close.before"
	CloseAfterSign     Point = "close.after_sign"
	CloseAfter         Point = "close.after"
)

// Environment arms points: "name=action,…". An action is kill (SIGKILL to this process), stop (SIGSTOP), sleep:<duration>, error, or
// hold:<file>, which holds the first who reaches the point: it makes the file and goes on when somebody has removed it.
// It is read once, when the first point is reached; what cannot be read ends the process.
const Environment = "HARNESS_FAILPOINTS"

// ErrArmed is what a point that is armed with error returns.
var ErrArmed = errors.New("failpoint")

type action func() error

var armed = sync.OnceValue(func() map[Point]action {
	points, err := parse(os.Getenv(Environment))
	if err != nil {
		panic(fmt.Sprintf("%s: %v", Environment, err))
	}
	return points
})

func parse(setting string) (map[Point]action, error) {
	points := map[Point]action{}
	if setting == "" {
		return points, nil
	}
	for one := range strings.SplitSeq(setting, ",") {
		name, what, found := strings.Cut(one, "=")
		if !found || name == "" {
			return nil, fmt.Errorf("%q is not name=action", one)
		}
		do, err := parseAction(what)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		points[Point(name)] = do
	}
	return points, nil
}

func parseAction(what string) (action, error) {
	if length, found := strings.CutPrefix(what, "sleep:"); found {
		d, err := time.ParseDuration(length)
		return func() error { time.Sleep(d); return nil }, err
	}
	if name, found := strings.CutPrefix(what, "hold:"); found && name != "" {
		return holdFirst(name), nil
	}
	switch what {
	case "kill":
		return func() error { return signal(syscall.SIGKILL) }, nil
	case "stop":
		return func() error { return signal(syscall.SIGSTOP) }, nil
	case "error":
		return func() error { return ErrArmed }, nil
	}
	return nil, fmt.Errorf("%q is no action", what)
}

// holdPoll is how often one who is held looks whether to go on.
const holdPoll = 5 * time.Millisecond

func holdFirst(name string) action {
	var reached atomic.Bool
	return func() error {
		if reached.Swap(true) {
			return nil
		}
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			return err
		}
		for {
			if _, err := os.Stat(name); err != nil {
				return nil // it was removed, with its folder perhaps
			}
			time.Sleep(holdPoll)
		}
	}
}

// signal is taken by this very thread before it goes on, so that nothing after the point runs before it has its effect.
func signal(s syscall.Signal) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return unix.Tgkill(os.Getpid(), unix.Gettid(), s)
}

// Hit does what the point is armed for.
func Hit(p Point) error {
	do, found := armed()[p]
	if !found {
		return nil
	}
	return do()
}

// Around does one stage between its two points, "<stage>.before" and "<stage>.after". The second is reached only by a stage that
// did not fail.
func Around(stage string, do func() error) error {
	if err := Hit(Point(stage + ".before")); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	return Hit(Point(stage + ".after"))
}
