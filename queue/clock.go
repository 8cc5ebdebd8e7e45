package queue

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rein-aharness/harness/internal/boottime"
)

// clock is the database's, carried on between looks at it. Everybody who decides by the time of day, or records it, goes by this one
// clock: a machine's own may be wrong and may be set, and then what has expired would not have for one of its workers. (A16, CASES 12)
type clock struct {
	mu   sync.Mutex
	base time.Time // what the database said
	at   boottime.Instant
}

// tolerated is by how much the database's clock may differ from what is carried on before it is taken anew. Smaller differences are
// how long the answer took; taking them would have the time go back a little with each.
const tolerated = time.Second

// saw takes what the database said when asked at a moment. The answer is a little older than the question, so time is never behind
// the database's by the way to it, and what expires does not do so late.
func (c *clock) saw(database time.Time, asked boottime.Instant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.base.IsZero() || database.Sub(c.base.Add(asked.Sub(c.at))).Abs() > tolerated {
		c.base, c.at = database, asked
	}
}

func (c *clock) now(at boottime.Instant) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.base.Add(at.Sub(c.at))
}

// Now is the database's time, to a second at worst while heartbeats or ticks go on.
func (s *Store) Now() time.Time { return s.clock.now(boottime.Now()) }

// readClock asks the database for its time.
func (s *Store) readClock(ctx context.Context) error {
	asked := boottime.Now()
	var now time.Time
	if err := s.pool.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&now); err != nil {
		return fmt.Errorf("ask the database for its time: %w", err)
	}
	s.clock.saw(now, asked)
	return nil
}
