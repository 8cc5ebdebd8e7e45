package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/docs"
	"github.com/rein-aharness/harness/evidence"
)

// leads is the line of a code's section that says what it leads to.
func leads(code string) string {
	var parts []string
	for _, row := range evidence.Table() {
		if string(row.Code) != code {
			continue
		}
		var stages []string
		for _, stage := range row.Stages {
			stages = append(stages, string(stage))
		}
		parts = append(parts, fmt.Sprintf("In %s: `%s`, exit %d.", strings.Join(stages, ", "), row.Outcome, row.Outcome.Disposition().Exit))
	}
	if parts == nil {
		for _, p := range problems() {
			if p.code == code {
				parts = append(parts, fmt.Sprintf("Of a command: exit %d.", p.exit))
			}
		}
	}
	return strings.Join(parts, " ")
}

// allCodes are the codes of runs and then those of commands alone, in their order.
func allCodes() []string {
	var codes []string
	for _, code := range evidence.Codes() {
		codes = append(codes, string(code))
	}
	for _, p := range problems() {
		if !slices.Contains(codes, p.code) {
			codes = append(codes, p.code)
		}
	}
	return codes
}

// A43: the page of errors has a section for each code and no other, which says where the code leads as the table has it, and what it
// means, what was done, and what to do.
func TestPageExplainsExactlyTheCodesThereAre(t *testing.T) {
	t.Parallel()
	var explained []string
	for _, s := range sections(docs.Errors) {
		explained = append(explained, s.code)
		said, rest, _ := strings.Cut(s.text, "\n\n")
		require.Equal(t, leads(s.code), strings.Join(strings.Fields(said), " "), s.code)
		require.NotEmpty(t, s.meaning(), s.code)
		at := -1
		for _, mark := range []string{markMeaning, markDone, markNext} {
			next := strings.Index(rest, mark)
			require.Greater(t, next, at, "%s has no %q in its place", s.code, mark)
			require.Greater(t, len(rest), next+len(mark)+1, s.code)
			at = next
		}
	}
	require.ElementsMatch(t, allCodes(), explained)
}

// A43: the page's table of outcomes says what the harness goes by.
func TestPageListsExactlyTheOutcomesThereAre(t *testing.T) {
	t.Parallel()
	_, table, found := strings.Cut(docs.Errors, "\n|---|---|---|---|---|---|\n")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(table, "\n")
	require.Len(t, rows, len(evidence.Outcomes()))
	for i, outcome := range evidence.Outcomes() {
		d := outcome.Disposition()
		cells := strings.Split(strings.Trim(rows[i], "|"), "|")
		require.Len(t, cells, 6, rows[i])
		for j, want := range []string{"`" + string(outcome) + "`", string(d.State), string(d.Effect), string(d.Retry), fmt.Sprint(int(d.Exit))} {
			require.Equal(t, want, strings.TrimSpace(cells[j]), "%s: cell %d", outcome, j)
		}
		require.NotEmpty(t, strings.TrimSpace(cells[5]), outcome)
	}
}

// A43: whatever an error is, it is shown with a code that the page explains, and with what to do next.
func TestEveryProblemHasACodeAndANextStep(t *testing.T) {
	t.Parallel()
	for _, code := range evidence.Codes() {
		err := evidence.Fail(evidence.StageAccept, code, "", nil)
		require.Equal(t, string(code), codeOf(err))
		require.NotEmpty(t, advice(err), code)
	}
	for _, p := range problems() {
		require.NotEmpty(t, cmp.Or(p.next, map[string]string{"usage": "the command's help"}[p.code]), p.code)
	}
}

// A43: the errors of typical mistakes name their code, what to do next, and where to read more.
func TestTypicalMistakesAreExplained(t *testing.T) {
	t.Parallel()
	const definition = "testdata/definition.yaml"
	for line, code := range map[string]string{
		"":                                          "usage",
		"bogus":                                     "usage",
		"help errors bogus":                         "usage",
		"emit -f " + definition:                     "usage",
		"runs list --state bogus":                   "usage",
		"reconcile":                                 "usage",
		"run -f " + definition:                      "usage",
		"--config none.yaml migrate":                "configuration_invalid",
		"--config none.yaml runs list":              "configuration_invalid",
		"--config none.yaml doctor":                 "configuration_invalid",
		"--config none.yaml profiles publish":       "usage", // nobody is named
		"--config main.go runs list":                "configuration_invalid",
		"emit --trigger-key k -f none.yaml":         "input_unreadable",
		"emit --trigger-key k -f main.go":           "contract_invalid",
		"profiles digest none.yaml":                 "input_unreadable",
		"profiles digest main.go":                   "profile_malformed",
		"profiles digest --config none.yaml":        "configuration_invalid",
		"evidence verify none --trust none.yaml":    "trust_invalid",
		"evidence verify main.go --trust main.go":   "trust_invalid",
		"evidence verify main.go --config none.yml": "configuration_invalid",
	} {
		exit, _, stderr := command(t, strings.Fields(line)...)
		require.NotEqual(t, evidence.ExitCompleted, exit, line)
		require.Regexp(t, `(?s)^harness: .+ \[`+code+`\]\nnext: [^\n]+\nmore: harness help errors `+code+`\n$`, stderr, line)
		require.Contains(t, succeed(t, "help", "errors", code), leads(code))
	}
}

func TestHelpListsTheCodes(t *testing.T) {
	t.Parallel()
	list := succeed(t, "help", "errors")
	for _, code := range allCodes() {
		require.Regexp(t, `(?m)^`+code+` +\S`, list)
	}
}
