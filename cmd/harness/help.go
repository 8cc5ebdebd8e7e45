package main

import (
	"strconv"
	"strings"

	"github.com/rein-aharness/harness/docs"
	"github.com/rein-aharness/harness/evidence"
)

type helpCmd struct {
	Topic []string `arg:"" optional:"" help:"A command, exit-codes, or errors and a code." placeholder:"TOPIC"`
}

func (helpCmd) Help() string {
	return `Examples:

    harness help exit-codes
    harness help errors
    harness help errors profile_unknown
    harness help runs settle`
}

func (c helpCmd) Run(a *app) error {
	switch {
	case len(c.Topic) == 1 && c.Topic[0] == "exit-codes":
		return a.printExitCodes()
	case len(c.Topic) == 1 && c.Topic[0] == "errors":
		return a.printErrors()
	case len(c.Topic) == 2 && c.Topic[0] == "errors":
		return a.printError(c.Topic[1])
	}
	_, err := a.parser.Parse(append(c.Topic, "--help"))
	return err
}

// printErrors lists the codes and what they mean, in the order of the page.
func (a *app) printErrors() error {
	t := newTable(a.out)
	for _, s := range sections(docs.Errors) {
		t.row(s.code, s.meaning())
	}
	return t.flush()
}

// printError prints what the page says about one code.
func (a *app) printError(code string) error {
	for _, s := range sections(docs.Errors) {
		if s.code == code {
			return a.printf("%s\n\n%s\n", s.code, s.text)
		}
	}
	return misuse("%q is no code; harness help errors lists them", code)
}

// section is what the page of errors says about one code.
type section struct{ code, text string }

// sections takes the page of errors apart.
func sections(page string) []section {
	var all []section
	for _, part := range strings.Split(page, "\n### ")[1:] {
		part, _, _ = strings.Cut(part, "\n## ")
		code, text, _ := strings.Cut(part, "\n")
		all = append(all, section{code, strings.TrimSpace(text)})
	}
	return all
}

// meaning is the first sentence of what the code means.
func (s section) meaning() string {
	_, text, _ := strings.Cut(s.text, markMeaning)
	text, _, _ = strings.Cut(text, "\n- ")
	first, _, _ := strings.Cut(strings.Join(strings.Fields(text), " "), ". ")
	return strings.TrimSuffix(first, ".")
}

// What each section says, in this order.
const (
	markMeaning = "- **Meaning:** "
	markDone    = "- **Done:** "
	markNext    = "- **Next:** "
)

func (a *app) printExitCodes() error {
	t := newTable(a.out)
	for _, e := range exitCodes() {
		t.row(strconv.Itoa(int(e.code)), e.meaning)
	}
	return t.flush()
}

// exitCode is one row of the table of exit codes.
type exitCode struct {
	code    evidence.ExitCode
	meaning string
}

// exitCodes are what a command can end with. A command about a run ends by how the run ended.
func exitCodes() []exitCode {
	return []exitCode{
		{evidence.ExitCompleted, "done; of a run: completed, the change is confirmed or nothing had to change"},
		{evidence.ExitError, "the command itself failed; it says nothing about a run"},
		{evidence.ExitUsage, "the command line is wrong"},
		{evidence.ExitRefused, "refused before any change could be made, or nothing was emitted, or a profile is not ready"},
		{evidence.ExitFailed, "the run failed, or the evidence does not verify"},
		{evidence.ExitCancelled, "the run was cancelled"},
		{evidence.ExitNotApplied, "the change was made and not applied, as when the baseline had moved"},
		{evidence.ExitUnknown, "the run is not over, or its effect is not known yet"},
		{evidence.ExitPartial, "the fence moved and the branch did not; an operator decides"},
		{evidence.ExitUnavailable, "a part is not there or is paused; the same command may succeed later"},
		{evidence.ExitExpired, "the run's deadline passed before it could start"},
	}
}
