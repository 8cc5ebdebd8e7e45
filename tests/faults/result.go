package faults

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Result is what came of one cell.
type Result struct {
	Cell       string   `json:"cell"`
	Commit     string   `json:"commit"` // of this repository
	Run        string   `json:"run,omitempty"`
	Outcome    Outcome  `json:"outcome"`
	Epoch      int64    `json:"epoch"`
	Commits    int      `json:"commits"`    // on the branch that name the run, by stock git
	Others     int      `json:"others"`     // on the branch that name no run or another
	Containers int      `json:"containers"` // left
	Tokens     int      `json:"tokens"`     // of the run that live in Vault
	Verified   bool     `json:"verified"`   // the evidence, offline and at the remote
	Seconds    float64  `json:"seconds"`    // from the emission to the end of the run
	Trouble    []string `json:"trouble,omitempty"`
}

// Wrong is everything about a result that must not be.
func (r Result) Wrong(c Cell) []string {
	wrong := append([]string(nil), r.Trouble...)
	say := func(bad bool, format string, arguments ...any) {
		if bad {
			wrong = append(wrong, fmt.Sprintf(format, arguments...))
		}
	}
	say(!c.Expected().Allows(r.Outcome), "it ended %s; expected is %s", r.Outcome, c.Expected())
	say(r.Commits > 1, "%d commits of the run are on the branch", r.Commits)
	say(r.Others > 0, "%d commits on the branch are not of the run", r.Others)
	say((r.Outcome.Effect == confirmed) != (r.Commits > 0), "the effect is %s, and the branch has %d commits of the run", r.Outcome.Effect, r.Commits)
	say(r.Containers > 0, "%d containers are left", r.Containers)
	say(r.Tokens > 0, "%d tokens are left", r.Tokens)
	say(!r.Verified, "the evidence does not verify")
	return wrong
}

// Append adds a result to the file, in one write.
func Append(path string, r Result) error {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	data, err := json.Marshal(r)
	if err == nil {
		_, err = file.Write(append(data, '\n'))
	}
	return errors.Join(err, file.Close())
}

// Read gives the last result of each cell at a commit of this repository, by the cell's name. A file that is not there holds none. A
// line that does not decode is none either: its process was ended while it wrote, and its cell is run again.
func Read(path, commit string) (map[string]Result, error) {
	results := map[string]Result{}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return results, nil
	}
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(data) {
		var r Result
		if json.Unmarshal(line, &r) == nil && r.Commit == commit {
			results[r.Cell] = r
		}
	}
	return results, nil
}
