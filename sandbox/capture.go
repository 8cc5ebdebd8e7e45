package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/sandbox/internal/changes"
	"github.com/rein-aharness/harness/sandbox/internal/guest"
)

// What a capture is made of; see the change stream.
type (
	// Bounds limit one capture; all are positive.
	Bounds = changes.Bounds
	// Known is what the baseline holds under a path: git mode, size, blob hash in hex.
	Known = changes.Known
	// Entry is one file or link that exists in the workspace; Content is valid until visit returns.
	Entry = changes.Entry
	// EntryKind says what an Entry is.
	EntryKind = changes.Kind
)

// The kinds of an entry.
const (
	KindFile    = changes.File
	KindExec    = changes.Exec
	KindSymlink = changes.Symlink
)

// Capture ends every process of the session and then gives visit every file and link of the workspace, in one fixed order; folders
// are not reported. What equals known comes without content, as Same. A path of known that was not visited is gone. After Capture
// nothing more is started in the sandbox. (A34)
//
// The stream is hostile input: stream_malformed, length_mismatch, entries_exceeded, bytes_exceeded, depth_exceeded,
// file_type_refused and file_unreadable each refuse the whole. An error of visit is returned as it is.
func (s *Sandbox) Capture(ctx context.Context, b Bounds, known map[string]Known, visit func(Entry) error) error {
	s.sealed.Store(true)
	if err := s.quiesce(ctx, true); err != nil {
		return err
	}
	walk, cancel := context.WithCancel(ctx)
	defer cancel()
	bounds, err := json.Marshal(b)
	if err != nil {
		return evidence.Fail(evidence.StageCapture, evidence.CodeCaptureFailed, "bounds", err)
	}
	var baseline bytes.Buffer
	if err := changes.WriteKnown(&baseline, known); err != nil {
		return evidence.Fail(evidence.StageCapture, evidence.CodeCaptureFailed, "baseline", err)
	}
	pr, pw := io.Pipe()
	walked := make(chan error, 1)
	go func() {
		err := s.helper(walk, []string{guest.HelperCapture, string(bounds)}, &baseline, func(p []byte) error {
			_, err := pw.Write(p)
			return err
		})
		pw.CloseWithError(err) // nil ends the stream as io.EOF
		walked <- err
	}()
	var visited error
	err = changes.Decode(pr, b, func(p string) bool { _, ok := known[p]; return ok }, func(e Entry) error {
		visited = visit(e)
		return visited
	})
	pr.CloseWithError(errors.New("capture is over"))
	if err != nil {
		cancel()
	}
	walkErr := <-walked
	switch {
	case err == nil:
		return nil // the stream ended as it should, and the helper with it
	case visited != nil && errors.Is(err, visited) && !ofStream(err):
		return visited
	}
	return s.captureFailure(ctx, err, walkErr)
}

type captureCode struct {
	err  error
	code evidence.Code
}

var captureCodes = []captureCode{
	{changes.ErrLength, evidence.CodeLengthMismatch},
	{changes.ErrEntries, evidence.CodeEntriesExceeded},
	{changes.ErrBytes, evidence.CodeBytesExceeded},
	{changes.ErrDepth, evidence.CodeDepthExceeded},
	{changes.ErrMalformed, evidence.CodeStreamMalformed},
}

var faultCodes = map[string]evidence.Code{
	changes.FaultType:       evidence.CodeFileTypeRefused,
	changes.FaultUnreadable: evidence.CodeFileUnreadable,
	changes.FaultEntries:    evidence.CodeEntriesExceeded,
	changes.FaultBytes:      evidence.CodeBytesExceeded,
	changes.FaultDepth:      evidence.CodeDepthExceeded,
}

// ofStream says whether an error is the stream's own: a visitor that reads content meets it too, and gives it back in its own words.
func ofStream(err error) bool {
	return slices.ContainsFunc(captureCodes, func(c captureCode) bool { return errors.Is(err, c.err) })
}

func (s *Sandbox) captureFailure(ctx context.Context, err, walkErr error) error {
	var fault *changes.Fault
	if errors.As(err, &fault) {
		return evidence.Fail(evidence.StageCapture, faultCodes[fault.Code], fault.Subject, err)
	}
	subject := "stream"
	var at *changes.At
	if errors.As(err, &at) {
		subject = at.Path
	}
	for _, c := range captureCodes {
		if errors.Is(err, c.err) {
			return evidence.Fail(evidence.StageCapture, c.code, subject, err)
		}
	}
	return s.failure(ctx, evidence.StageCapture, evidence.CodeCaptureFailed, subject, errors.Join(err, walkErr))
}
