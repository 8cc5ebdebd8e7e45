package evidence

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // git's own object hash
	"encoding/hex"
	"fmt"
	"strings"
)

// The trailers of every accepted commit: who made it, as which transaction, under which profile (name@version#digest).
const (
	TrailerRun         = "Harness-Run"
	TrailerTransaction = "Harness-Transaction"
	TrailerProfile     = "Harness-Profile"
)

// checkCommit holds a commit object's content against what was intended: its hash, tree, single parent, and trailers that name the
// run, the transaction and the profile.
func checkCommit(content []byte, run string, e Emitted, i Intended) error {
	h := sha1.New() //nolint:gosec // git's own object hash
	fmt.Fprintf(h, "commit %d\x00", len(content))
	h.Write(content)
	if got := hex.EncodeToString(h.Sum(nil)); got != i.Commit {
		return fmt.Errorf("its hash is %s, intended was %s", got, i.Commit)
	}
	head, message, ok := bytes.Cut(content, []byte("\n\n"))
	if !ok {
		return fmt.Errorf("it has no message")
	}
	var trees, parents []string
	for line := range strings.Lines(string(head)) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch name {
		case "tree":
			trees = append(trees, value)
		case "parent":
			parents = append(parents, value)
		}
	}
	if len(trees) != 1 || trees[0] != i.Tree {
		return fmt.Errorf("its tree is not the intended %s", i.Tree)
	}
	if len(parents) != 1 || parents[0] != i.Baseline {
		return fmt.Errorf("its only parent is not the baseline %s", i.Baseline)
	}
	return checkTrailers(string(message), map[string]string{
		TrailerRun: run, TrailerTransaction: i.Transaction, TrailerProfile: e.Profile + "#" + e.ProfileDigest,
	})
}

// Trailers reads what the trailers of an accepted commit say. ok is false for a commit that has not exactly one of each.
func Trailers(message string) (run, transaction, profile string, ok bool) {
	values := trailers(message)
	for _, t := range []struct {
		key string
		to  *string
	}{{TrailerRun, &run}, {TrailerTransaction, &transaction}, {TrailerProfile, &profile}} {
		if len(values[t.key]) != 1 {
			return "", "", "", false
		}
		*t.to = values[t.key][0]
	}
	return run, transaction, profile, true
}

// trailers reads the last paragraph of a commit's message.
func trailers(message string) map[string][]string {
	message = strings.TrimSuffix(message, "\n")
	last := message[strings.LastIndex(message, "\n\n")+1:]
	values := map[string][]string{}
	for line := range strings.Lines(last) {
		if key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ": "); ok {
			values[key] = append(values[key], value)
		}
	}
	return values
}

// checkTrailers holds the last paragraph of a commit's message against the trailers it must have, each exactly once.
func checkTrailers(message string, want map[string]string) error {
	values := trailers(message)
	for _, key := range []string{TrailerRun, TrailerTransaction, TrailerProfile} {
		if got := values[key]; len(got) != 1 || got[0] != want[key] {
			return fmt.Errorf("its trailer %s is not %q", key, want[key])
		}
	}
	return nil
}
