package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/rein-aharness/harness"
	"github.com/rein-aharness/harness/evidence"
)

// timeline shows the stages of a run as they begin and end. On a terminal the last line is redrawn with what goes on and for how
// long; elsewhere each beginning and end is a line of its own. It is safe for concurrent use.
type timeline struct {
	w     io.Writer
	now   func() time.Time
	width int // of the terminal; 0: none
	stop  chan struct{}
	ended sync.WaitGroup

	mu     sync.Mutex
	closed bool
	active []begun
	drawn  bool // the last line is a live one
}

type begun struct {
	stage evidence.Stage
	at    time.Time
}

// redrawEvery is how often the live line is drawn.
const redrawEvery = 200 * time.Millisecond

// newTimeline shows on w. It must be closed.
func newTimeline(w io.Writer, now func() time.Time) *timeline {
	t := &timeline{w: w, now: now, stop: make(chan struct{})}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil {
			t.width = width // without one there is no live line
		}
	}
	if t.width > 0 {
		t.ended.Go(t.redraw)
	}
	return t
}

// Close ends the live line. It may be called more than once.
func (t *timeline) Close() {
	t.mu.Lock()
	if !t.closed {
		t.closed = true
		close(t.stop)
		t.erase()
	}
	t.mu.Unlock()
	t.ended.Wait()
}

func (t *timeline) redraw() {
	ticker := time.NewTicker(redrawEvery)
	defer ticker.Stop()
	for {
		select {
		case <-t.stop:
			return
		case <-ticker.C:
			t.mu.Lock()
			t.draw()
			t.mu.Unlock()
		}
	}
}

// Progress takes one step of a run. It is harness.Options.Watch.
func (t *timeline) Progress(p harness.Progress) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	t.erase()
	if !p.Done {
		t.active = append(t.active, begun{p.Stage, p.At})
		if t.width == 0 {
			say(t.w, "  %-10s began\n", p.Stage)
		}
	} else {
		result := "ok"
		if p.Err != nil {
			result = "FAILED: " + strings.Join(lines(p.Err.Error()), "; ")
		}
		say(t.w, "  %-10s %8s  %s\n", p.Stage, seconds(p.At.Sub(t.finish(p))), result)
	}
	t.draw()
}

// finish takes a stage that has ended off the active ones, and gives the time of its beginning.
func (t *timeline) finish(p harness.Progress) time.Time {
	for i, b := range t.active {
		if b.stage == p.Stage {
			t.active = append(t.active[:i], t.active[i+1:]...)
			return b.at
		}
	}
	return p.At
}

// draw draws the live line, cut to the terminal's width.
func (t *timeline) draw() {
	if t.width == 0 || t.closed || len(t.active) == 0 {
		return
	}
	t.erase()
	var parts []string
	for _, b := range t.active {
		parts = append(parts, fmt.Sprintf("%s %s", b.stage, seconds(t.now().Sub(b.at))))
	}
	line := "  … " + strings.Join(parts, ", ")
	if runes := []rune(line); len(runes) >= t.width {
		line = string(runes[:t.width-1])
	}
	say(t.w, "%s", line)
	t.drawn = true
}

func (t *timeline) erase() {
	if t.drawn {
		say(t.w, "\r\x1b[K")
		t.drawn = false
	}
}
