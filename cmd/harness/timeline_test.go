package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness"
	"github.com/rein-aharness/harness/evidence"
)

func TestTimelineWithoutATerminalIsPlainLines(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	line := newTimeline(&out, time.Now)
	start := time.Unix(0, 0)
	line.Progress(harness.Progress{Stage: evidence.StageSandbox, At: start})
	line.Progress(harness.Progress{Stage: evidence.StagePreflight, At: start})
	line.Progress(harness.Progress{Stage: evidence.StageSandbox, Done: true, At: start.Add(1500 * time.Millisecond)})
	line.Progress(harness.Progress{
		Stage: evidence.StagePreflight, Done: true, At: start.Add(2 * time.Second),
		Err: evidence.Fail(evidence.StagePreflight, evidence.CodeRemoteDenied, "a\x1bb", nil),
	})
	line.Close()
	line.Close()
	line.Progress(harness.Progress{Stage: evidence.StageClose, At: start})
	require.Equal(t, []string{
		"  sandbox    began",
		"  preflight  began",
		"  sandbox        1.5s  ok",
		`  preflight      2.0s  FAILED: preflight: remote_denied ("a\x1bb")`,
		"",
	}, strings.Split(out.String(), "\n"))
}

func TestTimelineOnATerminalRedrawsOneLineWithinItsWidth(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		line := &timeline{w: &out, now: time.Now, width: 20, stop: make(chan struct{})}
		line.ended.Go(line.redraw)
		line.Progress(harness.Progress{Stage: evidence.StageSession, At: time.Now()})
		line.Progress(harness.Progress{Stage: evidence.StagePreflight, At: time.Now()})
		time.Sleep(time.Second + time.Millisecond)
		line.Progress(harness.Progress{Stage: evidence.StageSession, Done: true, At: time.Now(), Err: errors.New("lost")})
		line.Close()
		text := out.String()
		require.Contains(t, text, "  session        1.0s  FAILED: lost\n")
		require.True(t, strings.HasSuffix(text, "\r\x1b[K"), "nothing live is left: %q", text)
		for _, live := range strings.Split(strings.ReplaceAll(text, "\n", "\r\x1b[K"), "\r\x1b[K") {
			if strings.HasPrefix(live, "  …") {
				require.Less(t, len([]rune(live)), 20, "%q", live)
			}
		}
	})
}
