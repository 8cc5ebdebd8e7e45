package main

import (
	"context"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rein-aharness/harness"
	"github.com/rein-aharness/harness/evidence"
)

type runsLogsCmd struct {
	RunID  string `arg:"" name:"run" help:"The run's id." placeholder:"RUN"`
	Follow bool   `short:"f" help:"Go on until the run is over."`
}

func (runsLogsCmd) Help() string {
	return `Prints what the session wrote to its standard output and error: masked, bounded, kept for retention.session_log_days. It is the
session's own word and no evidence; the evidence has its length and digest. With --json each piece is one line.

Examples:

    harness runs logs RUN
    harness runs logs RUN -f`
}

// logView is the JSON of one piece of a session log, one per line.
type logView struct {
	Epoch int64  `json:"epoch"`
	Seq   int    `json:"seq"`
	At    string `json:"at"`
	Text  string `json:"text"`
}

func (c runsLogsCmd) Run(ctx context.Context, a *app) error {
	return a.with(ctx, harness.Options{}, func(h *harness.Harness) error {
		screen := &screen{w: a.out}
		var epoch int64
		var seq int
		for {
			// The state is read before the log, so that nothing written before the end is missed.
			run, err := h.Store().Run(ctx, c.RunID)
			if err != nil {
				return err
			}
			for {
				chunks, err := h.Store().SessionLog(ctx, c.RunID, epoch, seq)
				if err != nil {
					return err
				}
				if len(chunks) == 0 {
					break
				}
				for _, chunk := range chunks {
					epoch, seq = chunk.Epoch, chunk.Seq
					if a.JSON {
						err = a.printLine(logView{Epoch: epoch, Seq: seq, At: evidence.FormatTime(chunk.WrittenAt), Text: string(chunk.Bytes)})
					} else {
						_, err = screen.Write(chunk.Bytes)
					}
					if err != nil {
						return err
					}
				}
			}
			if !c.Follow || run.State.Final() {
				return screen.Close()
			}
			select {
			case <-ctx.Done():
				return screen.Close()
			case <-time.After(pollEvery):
			}
		}
	})
}

// screen writes text for a terminal: lines and tabs stay, and whatever else does not show itself is escaped, whoever wrote it.
type screen struct {
	w    io.Writer
	rest []byte // the beginning of a character whose end is still to come
}

func (s *screen) Write(p []byte) (int, error) {
	text := append(s.rest, p...)
	whole := len(text)
	for i := 1; i < utf8.UTFMax && i <= len(text); i++ {
		if tail := text[len(text)-i:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				whole -= i
			}
			break
		}
	}
	s.rest = append([]byte(nil), text[whole:]...)
	if _, err := io.WriteString(s.w, show(string(text[:whole]))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close writes what is left.
func (s *screen) Close() error {
	_, err := io.WriteString(s.w, show(string(s.rest)))
	s.rest = nil
	return err
}

func show(text string) string {
	var b strings.Builder
	for len(text) > 0 {
		i := strings.IndexAny(text, "\n\t")
		if i < 0 {
			i = len(text)
		}
		b.WriteString(clean(text[:i], len(text)*longestEscape))
		if i < len(text) {
			b.WriteByte(text[i])
			i++
		}
		text = text[i:]
	}
	return b.String()
}

// longestEscape is how much longer an escaped character can be.
const longestEscape = 10
