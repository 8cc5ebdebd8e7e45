package requirements

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Outcome is how a test ended.
type Outcome string

const (
	Passed     Outcome = "passed"
	Failed     Outcome = "failed"
	Skipped    Outcome = "was skipped" // the test or a part of it
	Unfinished Outcome = "began and never ended"
)

// Results is the outcome of each test that began, named as on the page.
type Results map[string]Outcome

// event is one line of `go test -json`.
type event struct {
	Action     string
	Package    string
	ImportPath string
	Test       string
	Output     string
}

// ReadResults reads what `go test -json` printed for the packages of module. A subtest counts for its test: the worst
// outcome of all decides. Lines that are not JSON, such as the go command's own, are passed over; no event at all is an
// error.
func ReadResults(r io.Reader, module string) (Results, error) {
	results := Results{}
	events := 0
	err := eachEvent(r, func(e event, _ []byte) error {
		events++
		dir, ok := folder(e.Package, module)
		if e.Test == "" || !ok {
			return nil
		}
		test, _, _ := strings.Cut(e.Test, "/")
		name := Name(dir, test)
		switch e.Action {
		case "run":
			if _, ok := results[name]; !ok {
				results[name] = Unfinished
			}
		case "fail":
			results[name] = Failed
		case "skip":
			if results[name] != Failed {
				results[name] = Skipped
			}
		case "pass":
			if test == e.Test && results[name] == Unfinished {
				results[name] = Passed
			}
		}
		return nil
	}, func([]byte) error { return nil })
	if err == nil && events == 0 {
		err = errors.New("the result holds no event of a test")
	}
	return results, err
}

func folder(pkg, module string) (dir string, ok bool) {
	if pkg == module {
		return ".", true
	}
	return strings.CutPrefix(pkg, module+"/")
}

// eachEvent calls visit for every event of r and other for every other line, both with the line as it came.
func eachEvent(r io.Reader, visit func(event, []byte) error, other func([]byte) error) error {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			var visitErr error
			if line[0] == '{' && json.Unmarshal(line, &e) == nil && e.Action != "" {
				visitErr = visit(e, line)
			} else {
				visitErr = other(line)
			}
			if visitErr != nil {
				return visitErr
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the result: %w", err)
		}
	}
}
