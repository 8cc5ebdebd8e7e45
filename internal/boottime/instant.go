package boottime

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Instant is a moment since the machine was started, as this machine alone counts it. Setting the clock does not change how far two
// lie apart, and a suspension counts.
type Instant time.Duration

// Now is the present.
func Now() Instant {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic(fmt.Sprintf("read the time since the machine was started: %v", err)) // every Linux since 2.6.39 has it
	}
	return Instant(t.Nano())
}

// Sub is how long after another moment this one is.
func (i Instant) Sub(earlier Instant) time.Duration { return time.Duration(i - earlier) }

// Since is how long ago a moment was.
func Since(i Instant) time.Duration { return Now().Sub(i) }
