package evidence

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // git's own object hash
	"encoding/hex"
	"fmt"
	"strings"
)

// checkCommit holds a commit object's content against what was intended: its hash, tree, single parent, and trailers that name the
// run, the transaction and the profile's digest.
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
	trailers := map[string]bool{}
	for line := range strings.Lines(string(message)) {
		if _, value, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			trailers[value] = true
		}
	}
	for name, value := range map[string]string{"run": run, "transaction": i.Transaction, "profile digest": e.ProfileDigest} {
		if !trailers[value] {
			return fmt.Errorf("no trailer names the %s", name)
		}
	}
	return nil
}
