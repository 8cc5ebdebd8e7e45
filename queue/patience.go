package queue

import (
	"context"
	"time"
)

// persist tries again as long as the database does not answer, with pauses that grow to a second, until ctx ends. It returns the
// error of the last try. try may run again after a commit whose answer was lost.
func persist(ctx context.Context, try func() error) error {
	const firstPause, longestPause = 50 * time.Millisecond, time.Second
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := try()
		if err == nil || !transient(err) || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// patiently asks the database for what is needed to end a run well, which is not to fail because one connection was lost: again and
// again for one TTL, after which a lease would be lost as well, and no single time for longer than a third of it.
func (s *Store) patiently(ctx context.Context, ask func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.config.TTL)
	defer cancel()
	return persist(ctx, func() error {
		once, cancel := context.WithTimeout(ctx, s.config.TTL/3)
		defer cancel()
		err := ask(once)
		s.noteError(err)
		return err
	})
}
