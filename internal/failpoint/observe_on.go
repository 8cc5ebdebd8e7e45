//go:build failpoint

package failpoint

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// HistoryEnvironment names the file to which every operation on a lease is appended, one line when it begins and one when it is
// answered. A process that is killed in between leaves the first alone. Beside it stands how many goroutines the process has.
const HistoryEnvironment = "HARNESS_HISTORY"

// Line is one line of the history. Its times are the machine's monotonic clock in nanoseconds, the same for all processes.
type Line struct {
	ID     string `json:"id"`
	Op     string `json:"op"`
	Run    string `json:"run"`
	Owner  string `json:"owner"`
	Epoch  int64  `json:"epoch"` // of a claim only known when it is answered
	Call   int64  `json:"call,omitempty"`
	Return int64  `json:"return,omitempty"`
	Error  string `json:"error,omitempty"`
}

var history = sync.OnceValue(func() *os.File {
	name := os.Getenv(HistoryEnvironment)
	if name == "" {
		return nil
	}
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(fmt.Sprintf("%s: %v", HistoryEnvironment, err))
	}
	go countGoroutines(name)
	return file
})

// Operation is one operation on a lease.
type Operation struct{ line Line }

// Begin is called before an operation is asked of the database.
func Begin(op, run, owner string, epoch int64) Operation {
	if history() == nil {
		return Operation{}
	}
	o := Operation{Line{ID: rand.Text(), Op: op, Run: run, Owner: owner, Epoch: epoch}}
	begun := o.line
	begun.Call = now()
	write(begun)
	return o
}

// End is called with its answer, and the epoch that it was done in.
func (o Operation) End(epoch int64, err error) {
	if o.line.ID == "" {
		return
	}
	o.line.Return = now()
	o.line.Epoch = epoch
	if err != nil {
		o.line.Error = err.Error()
	}
	write(o.line)
}

// write appends in one call, so that lines of several goroutines do not mix. A history with holes proves nothing, so a line that
// cannot be written ends the process.
func write(line Line) {
	data, err := json.Marshal(line)
	if err == nil {
		_, err = history().Write(append(data, '\n'))
	}
	if err != nil {
		panic(fmt.Sprintf("%s: %v", HistoryEnvironment, err))
	}
}

func now() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err)
	}
	return t.Nano()
}
