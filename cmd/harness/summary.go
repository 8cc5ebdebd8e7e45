package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/rein-aharness/harness/evidence"
)

// summary says in one line what a fact says. What is not certain keeps its source.
func summary(f evidence.Fact) (string, error) {
	body, err := f.Open()
	if err != nil {
		return "", fmt.Errorf("fact %d: %w", f.Seq, err)
	}
	text := strings.ReplaceAll(string(f.Kind), "_", " ")
	if detail := detailOfBody(body); detail != "" {
		text += ": " + detail
	}
	if f.Source != evidence.SourceObserved {
		text += fmt.Sprintf(" (%s)", strings.ReplaceAll(string(f.Source), "_", " "))
	}
	return text, nil
}

// detailOfBody picks what a person wants to see of a fact first. Everything is in evidence show.
func detailOfBody(body evidence.Body) string {
	switch b := body.(type) {
	case evidence.Emitted:
		return fmt.Sprintf("%s on %s, %s at %s to %s", b.Definition, b.Repository, b.BaseRef, short(b.Baseline), b.TargetRef)
	case evidence.Claimed:
		return fmt.Sprintf("by %s on engine %s", b.Owner, b.Engine)
	case evidence.Resolved:
		if b.Proof {
			return fmt.Sprintf("%s is %s; this run is a labelled proof", b.Profile, b.Readiness)
		}
		return fmt.Sprintf("%s is %s", b.Profile, b.Readiness)
	case evidence.Admitted:
		return join(b.Outcome, strings.Join(b.Reasons, ", "))
	case evidence.Preflighted:
		return fmt.Sprintf("fencing: %s, manifest: %s, published with %s", b.Fencing, b.Manifest, b.PublishRoute)
	case evidence.Sandboxed:
		text := fmt.Sprintf("%s under %s, %d properties observed", short(strings.TrimPrefix(b.Image, "sha256:")), b.Runtime, len(b.Observed))
		if len(b.NotEnforced) > 0 {
			text += ", not enforced: " + strings.Join(b.NotEnforced, ", ")
		}
		return text
	case evidence.SessionEnded:
		return sessionText(b)
	case evidence.Captured:
		return fmt.Sprintf("%d added, %d modified, %d deleted, %d ignored", b.Added, b.Modified, b.Deleted, b.Ignored)
	case evidence.TornDown:
		return tornDownText(b)
	case evidence.Intended:
		return fmt.Sprintf("commit %s on %s, %d files, %d insertions, %d deletions", short(b.Commit), b.TargetRef, b.ChangedCount, b.Insertions, b.Deletions)
	case evidence.Published:
		if !b.ReadBack {
			return "not read back, lease " + b.Lease
		}
		return "read back, lease " + b.Lease
	case evidence.Found:
		return fmt.Sprintf("commit %s names the run, by the %s; its record is lost", short(b.Commit), b.By)
	case evidence.Settled:
		return fmt.Sprintf("%s, %s, by %s", b.Effect, b.Reason, b.By)
	case evidence.Cancelled:
		return join("by "+b.By, b.Reason)
	case evidence.Closed:
		return fmt.Sprintf("%s, effect %s", b.State, b.Effect)
	case evidence.Failed:
		return join(fmt.Sprintf("%s in %s", b.Code, b.Stage), b.Subject)
	default: // Started has nothing to add
		return ""
	}
}

func sessionText(b evidence.SessionEnded) string {
	text := fmt.Sprintf("%s exit code %d after %s, %d bytes of output", b.Rein, b.ExitCode, seconds(time.Duration(b.DurationMillis)*time.Millisecond), b.OutputBytes)
	if b.Signal != "" {
		text += ", signal " + b.Signal
	}
	if b.OutputTruncated {
		text += ", cut"
	}
	return text
}

func tornDownText(b evidence.TornDown) string {
	if b.Clean() {
		return fmt.Sprintf("nothing is left, %d tokens revoked", b.TokensRevoked)
	}
	var left []string
	if !b.ContainerGone {
		left = append(left, "the container was not seen to be gone")
	}
	if !b.VolumesGone {
		left = append(left, "volumes were not seen to be gone")
	}
	if b.TokensLeft > 0 {
		left = append(left, fmt.Sprintf("%d tokens are left", b.TokensLeft))
	}
	return strings.Join(left, ", ")
}

func join(what, why string) string {
	if why == "" {
		return what
	}
	return what + ": " + why
}

// short is the beginning of a hash, enough to find it by.
func short(hash string) string {
	const enough = 12
	if len(hash) <= enough {
		return hash
	}
	return hash[:enough]
}
