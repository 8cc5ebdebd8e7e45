package history

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/tests/stack"
)

// Kind says what a value of a ref is.
type Kind string

// The kinds of values.
const (
	Absent    Kind = "absent"
	Fence     Kind = "fence"     // the tag of a lease
	Tombstone Kind = "tombstone" // closed by an epoch
	Commit    Kind = "commit"
)

// Value is one value of a ref.
type Value struct {
	Hash  string `json:"hash,omitempty"` // empty when absent
	Kind  Kind   `json:"kind"`
	Epoch int64  `json:"epoch,omitempty"` // of the lease whose fence it is, whose tombstone, or whose commit
	Run   string `json:"run,omitempty"`
}

// Update moves one ref.
type Update struct {
	Ref string `json:"ref"`
	Old Value  `json:"old"`
	New Value  `json:"new"`
}

// Transaction is what the git server did in one. Call is when it held the locks of all refs and had compared the old values, Return
// when it was done, both nanoseconds of the server's clock; 0 when nobody said so, and it may have been done in part.
type Transaction struct {
	Repository string   `json:"repository"`
	Call       int64    `json:"call"`
	Return     int64    `json:"return,omitempty"`
	Outcome    Outcome  `json:"outcome"` // OK, Refused or Unknown
	Updates    []Update `json:"updates"`
}

// FencePrefix is where fences are.
const FencePrefix = "refs/harness/fence/"

const (
	transactionsFile = "transactions.log"
	absent           = "0000000000000000000000000000000000000000"
	// hook appends a line for each ref of a transaction: the server says "prepared" while it holds the locks of all refs, so the lines
	// of one ref stand in the order in which it changed.
	hook = `#!/bin/sh
case $1 in prepared | committed | aborted) ;; *) exit 0 ;; esac
now=$(date +%s%N)
while read -r old new ref; do lines="$lines$now $1 $PPID $old $new $ref
"; done
exec 9>>` + transactionsFile + `
flock 9
printf %s "$lines" >&9
`
)

// Watch makes the server write down every transaction of a repository from now on.
func Watch(repository string) error {
	return os.WriteFile(filepath.Join(repository, "hooks", "reference-transaction"), []byte(hook), 0o755)
}

// ReadTransactions reads what the server of a watched repository wrote down, in its order.
func ReadTransactions(ctx context.Context, repository string) ([]Transaction, error) {
	var all []*Transaction
	open := map[string]*Transaction{} // by the server's process
	err := eachLine(filepath.Join(repository, transactionsFile), func(text string) error {
		fields := strings.Fields(text)
		if len(fields) != 6 {
			return fmt.Errorf("%d fields", len(fields))
		}
		at, err := strconv.ParseInt(fields[0], 10, 64)
		if err != nil {
			return err
		}
		if fields[5] == "HEAD" {
			return nil // it only follows the branch it stands for
		}
		process := fields[2]
		t := open[process]
		switch fields[1] {
		case "prepared":
			if t == nil || t.Call != at {
				t = &Transaction{Repository: filepath.Base(repository), Call: at, Outcome: Unknown}
				open[process] = t
				all = append(all, t)
			}
			t.Updates = append(t.Updates, Update{Ref: fields[5], Old: Value{Hash: fields[3]}, New: Value{Hash: fields[4]}})
		case "committed":
			if t != nil {
				t.Return, t.Outcome = at, OK
			}
		case "aborted":
			// One that was never prepared has changed nothing either.
			if t != nil && t.Return == 0 {
				t.Return, t.Outcome = at, Refused
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return identify(ctx, repository, all)
}

// identify says what the values are, by the objects themselves.
func identify(ctx context.Context, repository string, all []*Transaction) ([]Transaction, error) {
	// What a refused transaction brought is gone, and it has changed nothing.
	all = slices.DeleteFunc(all, func(t *Transaction) bool { return t.Outcome == Refused })
	var hashes []string
	for _, t := range all {
		for _, u := range t.Updates {
			hashes = append(hashes, u.Old.Hash, u.New.Hash)
		}
	}
	values, err := readValues(ctx, repository, hashes)
	if err != nil {
		return nil, err
	}
	done := make([]Transaction, 0, len(all))
	for _, t := range all {
		for i, u := range t.Updates {
			t.Updates[i].Old, t.Updates[i].New = values[u.Old.Hash], values[u.New.Hash]
		}
		done = append(done, *t)
	}
	slices.SortStableFunc(done, func(a, b Transaction) int { return cmp.Compare(a.Call, b.Call) })
	return done, nil
}

// readValues reads objects with one call of git.
func readValues(ctx context.Context, repository string, hashes []string) (map[string]Value, error) {
	values := map[string]Value{absent: {Kind: Absent}}
	slices.Sort(hashes)
	hashes = slices.DeleteFunc(slices.Compact(hashes), func(hash string) bool { return hash == absent })
	if len(hashes) == 0 {
		return values, nil
	}
	output, err := stack.Git(ctx, repository, []byte(strings.Join(hashes, "\n")+"\n"), "cat-file", "--batch")
	if err != nil {
		return nil, err
	}
	for _, hash := range hashes {
		header, rest, _ := bytes.Cut(output, []byte("\n"))
		fields := strings.Fields(string(header))
		if len(fields) != 3 || fields[0] != hash {
			return nil, fmt.Errorf("object %s of %s: %q", hash, repository, header)
		}
		size, err := strconv.Atoi(fields[2])
		if err != nil || size >= len(rest) {
			return nil, fmt.Errorf("object %s of %s: %q", hash, repository, header)
		}
		if values[hash], err = readValue(hash, fields[1], string(rest[:size])); err != nil {
			return nil, fmt.Errorf("object %s of %s: %w", hash, repository, err)
		}
		output = rest[size+1:]
	}
	return values, nil
}

func readValue(hash, kind, text string) (v Value, err error) {
	v = Value{Hash: hash, Kind: Commit}
	switch transaction := trailer(text, evidence.TrailerTransaction); {
	case kind == "tag":
		v.Kind, v.Run = Fence, between(text, "\ntag harness-fence-", "\n")
		v.Epoch, err = strconv.ParseInt(between(text, "\nepoch ", "\n"), 10, 64)
	case strings.Contains(text, "\nFence of run "):
		v.Kind, v.Run = Tombstone, between(text, "\nFence of run ", " ")
		v.Epoch, err = strconv.ParseInt(between(text, " closed by epoch ", "\n"), 10, 64)
	case transaction != "":
		run, epoch, _ := strings.Cut(transaction, ".")
		v.Run = run
		v.Epoch, err = strconv.ParseInt(epoch, 10, 64)
	}
	return v, err
}

func between(text, before, after string) string {
	_, rest, _ := strings.Cut(text, before)
	found, _, _ := strings.Cut(rest, after)
	return found
}

func trailer(text, key string) string { return strings.TrimSpace(between(text, "\n"+key+":", "\n")) }
