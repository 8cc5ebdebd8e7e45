package requirements

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Transcript copies every event of `go test -json` to kept and prints for people what plain `go test` would: a line per
// package as it ends, and before it the output of the tests that failed or never ended. Skipped tests are named too. It
// reports whether all that ran passed; an input without any package's end is not a pass.
func Transcript(r io.Reader, kept, people io.Writer) (bool, error) {
	t := transcript{people: people, packages: map[string]*running{}}
	err := eachEvent(r, func(e event, line []byte) error {
		if _, err := kept.Write(line); err != nil {
			return fmt.Errorf("keep the result: %w", err)
		}
		return t.event(e)
	}, func(line []byte) error {
		_, err := people.Write(line)
		return err
	})
	if err != nil {
		return false, err
	}
	for name, p := range t.packages {
		t.failed = true
		if err := t.tests(p, "", ""); err != nil {
			return false, err
		}
		if _, err := fmt.Fprintf(people, "%sFAIL\t%s [never ended]\n", p.own.String(), name); err != nil {
			return false, err
		}
	}
	ok := t.ended > 0 && !t.failed
	if !ok {
		_, err = fmt.Fprintln(people, "FAIL")
	}
	return ok, err
}

type transcript struct {
	people   io.Writer
	packages map[string]*running // those that have not ended
	ended    int
	failed   bool
}

// running is a package whose tests are under way.
type running struct {
	own    strings.Builder             // output of the package itself
	output map[string]*strings.Builder // by test, dropped when it passes
	parts  map[string][]string         // by test, in the order they began; the tests themselves under ""
}

func (t *transcript) event(e event) error {
	switch {
	case e.Action == "build-output":
		_, err := io.WriteString(t.people, e.Output)
		return err
	case e.Action == "build-fail":
		t.failed = true
		return nil
	case e.Package == "":
		return nil
	}
	p := t.packages[e.Package]
	if p == nil {
		p = &running{output: map[string]*strings.Builder{}, parts: map[string][]string{}}
		t.packages[e.Package] = p
	}
	ends := e.Action == "pass" || e.Action == "skip" || e.Action == "fail"
	switch {
	case e.Test == "" && ends:
		return t.end(e.Package, p, e.Action == "fail")
	case e.Output == "PASS\n": // says nothing beside the package's own line
	case e.Test == "":
		p.own.WriteString(e.Output)
	case e.Action == "run":
		p.begin(e.Test)
	case e.Action == "pass":
		delete(p.output, e.Test)
	case e.Action == "output" && !strings.HasPrefix(e.Output, "=== "):
		p.write(e)
	}
	return nil
}

// begin notes a test under the one it is a part of. A name may hold slashes of its own, so the longest test that has begun
// and is a prefix of it is the one.
func (p *running) begin(test string) {
	parent := test
	for parent != "" {
		parent = parent[:max(strings.LastIndex(parent, "/"), 0)]
		if _, ok := p.output[parent]; ok {
			break
		}
	}
	if !slices.Contains(p.parts[parent], test) { // else run again, by -count
		p.parts[parent] = append(p.parts[parent], test)
	}
	if p.output[test] == nil {
		p.output[test] = &strings.Builder{}
	}
}

// write adds to the output of a test that began. Of others, such as one in a cut log, it goes to the package.
func (p *running) write(e event) {
	if out := p.output[e.Test]; out != nil {
		out.WriteString(e.Output)
	} else {
		p.own.WriteString(e.Output)
	}
}

func (t *transcript) end(name string, p *running, failed bool) error {
	t.ended++
	t.failed = t.failed || failed
	delete(t.packages, name)
	if err := t.tests(p, "", ""); err != nil {
		return err
	}
	_, err := io.WriteString(t.people, p.own.String())
	return err
}

// tests prints what is left of the output below a test, all that did not pass: as plain `go test` does, the verdict first
// and a part deeper than what it is a part of.
func (t *transcript) tests(p *running, below, indent string) error {
	for _, test := range p.parts[below] {
		if out := p.output[test]; out != nil {
			if _, err := io.WriteString(t.people, verdictFirst(out.String(), indent)); err != nil {
				return err
			}
		}
		if err := t.tests(p, test, indent+"    "); err != nil {
			return err
		}
	}
	return nil
}

func verdictFirst(output, indent string) string {
	var verdict, rest strings.Builder
	for line := range strings.Lines(output) {
		switch {
		case strings.HasPrefix(line, "--- "):
			verdict.WriteString(indent + line)
		case strings.HasPrefix(line, "    "):
			rest.WriteString(indent + line)
		default:
			rest.WriteString(line)
		}
	}
	return verdict.String() + rest.String()
}
