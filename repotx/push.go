package repotx

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
)

// command asks for one ref to go from one hash to another; "" is absence.
type command struct{ ref, from, to string }

func orZero(hash string) string {
	if hash == "" {
		return zeroHash
	}
	return hash
}

// Answer is what the remote said to one push. It decides nothing by itself: even a complete one counts only together with what is read
// back afterwards. (A41, B29)
type Answer struct {
	// Sent says that the request may have reached the remote.
	Sent bool
	// Unpack is the remote's word on the pack, "" when there was no report.
	Unpack string
	// Status holds the remote's word on each ref it reported: "ok" or its reason, bounded and on one line.
	Status map[string]string
	// Message is the remote's text for people, bounded and without control characters. For the log only.
	Message string
	// Err says why there is no whole report.
	Err error

	wanted []string
}

// Complete reports whether the remote reported every ref as done.
func (a Answer) Complete() bool {
	if !a.Sent || a.Err != nil || a.Unpack != "ok" || len(a.wanted) == 0 {
		return false
	}
	for _, ref := range a.wanted {
		if a.Status[ref] != "ok" {
			return false
		}
	}
	return true
}

// Fault puts an answer that is not complete into words; it is nil for one that is.
func (a Answer) Fault() error {
	if a.Complete() {
		return nil
	}
	var said []string
	for _, ref := range a.wanted {
		if reason, ok := a.Status[ref]; ok && reason != "ok" {
			said = append(said, fmt.Sprintf("%s: %s", ref, reason))
		}
	}
	if a.Unpack != "" && a.Unpack != "ok" {
		said = append(said, "unpack: "+a.Unpack)
	}
	if a.Message != "" {
		said = append(said, "remote: "+a.Message)
	}
	if len(said) == 0 && a.Err == nil {
		said = append(said, "the remote did not report every ref")
	}
	if len(said) == 0 {
		return a.Err
	}
	return errors.Join(a.Err, errors.New(strings.Join(said, "; ")))
}

const (
	maxReportBytes  = 1 << 20
	maxMessageShown = 4 << 10
	maxReasonShown  = 256
)

// push sends one request with the commands in their order. atomic asks for all or nothing and refuses a remote that does
// not offer it, instead of dropping the wish silently. A ref that has left its old value already is not sent for.
func (r *Remote) push(ctx context.Context, commands []command, pack []byte, atomic bool) Answer {
	answer := Answer{Status: map[string]string{}}
	for _, c := range commands {
		answer.wanted = append(answer.wanted, c.ref)
	}
	err := r.converse(ctx, r.store.config.Timeout, receivePack, func(_ context.Context, c conversation) error {
		adv, err := c.advertisement(maxAdvertisementBytes)
		if err != nil {
			return err
		}
		for _, want := range commands {
			if adv.Refs[want.ref] != want.from {
				return fmt.Errorf("%s is not at its expected value", want.ref)
			}
		}
		request, sideband, err := encodePush(adv, commands, atomic)
		if err != nil {
			return err
		}
		answer.Sent = true
		body, err := c.exchange(maxReportBytes, request, pack)
		if err != nil {
			return err
		}
		return answer.read(body, sideband)
	})
	answer.Err = err
	return answer
}

func encodePush(adv Advertisement, commands []command, atomic bool) (request []byte, sideband bool, err error) {
	caps := []string{"agent=" + strings.ReplaceAll(userAgent, " ", "-")}
	if !adv.Supports("report-status") {
		return nil, false, errors.New("the remote does not report what it did")
	}
	caps = append(caps, "report-status")
	if atomic {
		if !adv.Supports("atomic") {
			return nil, false, errors.New("the remote cannot update several refs as one")
		}
		caps = append(caps, "atomic")
	}
	if sideband = adv.Supports("side-band-64k"); sideband {
		caps = append(caps, "side-band-64k")
	}
	var buf bytes.Buffer
	e := pktline.NewEncoder(&buf)
	for i, c := range commands {
		if c.to == "" && !adv.Supports("delete-refs") {
			return nil, false, errors.New("the remote does not delete refs")
		}
		line := orZero(c.from) + " " + orZero(c.to) + " " + c.ref
		if i == 0 {
			line += "\x00 " + strings.Join(caps, " ")
		}
		if err := e.EncodeString(line); err != nil {
			return nil, false, fmt.Errorf("writing the request: %w", err)
		}
	}
	if err := e.Flush(); err != nil {
		return nil, false, fmt.Errorf("writing the request: %w", err)
	}
	return buf.Bytes(), sideband, nil
}

// read takes the report. Nothing, or less than a whole report, is an error: go-git's own transport returns neither a report
// nor an error for an empty body.
func (a *Answer) read(body io.Reader, banded bool) error {
	var said bytes.Buffer
	defer func() { a.Message = oneLine(said.String(), maxMessageShown) }()
	if banded {
		d := sideband.NewDemuxer(sideband.Sideband64k, body)
		d.Progress = &capped{&said, maxMessageShown}
		body = d
	}
	report := packp.NewReportStatus()
	if err := report.Decode(body); err != nil {
		return fmt.Errorf("reading the remote's report: %w", err)
	}
	a.Unpack = oneLine(report.UnpackStatus, maxReasonShown)
	for _, s := range report.CommandStatuses {
		name := s.ReferenceName.String()
		if _, twice := a.Status[name]; twice {
			return errors.New("the remote reported a ref twice")
		}
		a.Status[name] = oneLine(s.Status, maxReasonShown)
	}
	return nil
}

// capped keeps the first n bytes and takes the rest without keeping it.
type capped struct {
	to *bytes.Buffer
	n  int
}

func (c *capped) Write(p []byte) (int, error) {
	if room := c.n - c.to.Len(); room > 0 {
		c.to.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

// oneLine makes a remote's words safe to print: bounded, valid, no control characters.
func oneLine(s string, limit int) string {
	s = strings.ToValidUTF8(s[:min(len(s), limit)], "?")
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if plainLine("x"+string(r)) != nil {
			return ' '
		}
		return r
	}, s))
}
