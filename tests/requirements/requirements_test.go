package requirements

import (
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestThePagesAreCurrentAndComplete(t *testing.T) {
	t.Parallel()
	sources, err := Read(os.DirFS("../.."))
	require.NoError(t, err)
	pages, err := ReadPages(os.DirFS("../.."))
	require.NoError(t, err)
	require.Len(t, pages, 2)
	for _, page := range pages {
		faults, err := page.Check(sources)
		require.NoError(t, err)
		require.Empty(t, faults)
	}
}

func TestEveryIDIsListedOnce(t *testing.T) {
	t.Parallel()
	all := append(RequirementIDs(), CaseIDs()...)
	require.Len(t, all, 51+46+44)
	require.Subset(t, all, []string{"A1", "A51", "B1", "B46", "1", "44"})
	slices.Sort(all)
	require.Len(t, slices.Compact(all), 51+46+44)
}

func TestACommentClaimsTheIDsItBeginsWithOrBrackets(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		" A22, A43":                       "A22 A43",
		" A22, A43: what it shows":        "A22 A43",
		" A2 and B3 hold":                 "A2 B3",
		" A9":                             "A9",
		" A3–A5, B1":                      "A3 A4 A5 B1",
		" A3-5":                           "A3 A4 A5",
		" A34, CASES 22–24, 39; B2":       "A34 22 23 24 39 B2",
		" CASES 1, 2; A16":                "1 2 A16",
		" CASE 6: the clock is set back":  "6",
		" as in A9 (CASES 6, 44)":         "6 44",
		" CASES 6 shows it in 3 ways":     "6",
		" CASES of 7":                     "",
		" A foreign close (A16, A17)":     "A16 A17",
		" Every byte counts. A20":         "A20",
		" as the RFC does: B18, B19.":     "B18 B19",
		" A20; A21":                       "A20 A21",
		" as it is in A20":                "",
		" the page names A16 in passing":  "",
		" A22nd word":                     "",
		" Bounds are 16 (B39) and finite": "B39",
	} {
		got, err := newReader().read(line)
		require.NoError(t, err, line)
		require.Equal(t, want, strings.Join(got, " "), line)
	}
	for _, line := range []string{" A52", " B1, A99", " (A0)", " A5-A3", " A50–B2", " CASES 45", " CASES 0", " CASES 9-7"} {
		_, err := newReader().read(line)
		require.ErrorContains(t, err, "names no requirement and no case", line)
	}
}

func TestClaimsBelongToTheTestAroundThem(t *testing.T) {
	t.Parallel()
	s, err := Read(fstest.MapFS{
		"root_test.go":          {Data: []byte("package harness\n\n// A1\nfunc TestChain(t *T) {}\n")},
		"queue/a_test.go":       {Data: []byte("package queue\n\n// A15: one run.\n// A17\nfunc TestOne(t *T) {\n\t// A15, B2, CASES 7\n\tx()\n}\n\nfunc FuzzTwo(f *F) {\n\t// A15\n}\n\nfunc Testify() {}\n\nfunc BenchmarkOne(b *B) {}\n")},
		"queue/testdata/t.go":   {Data: []byte("nothing")},
		"tests/vault/go.mod":    {Data: []byte("module example.org/vault\n")},
		"tests/vault/a_test.go": {Data: []byte("package broken here")},
	})
	require.NoError(t, err)
	require.Equal(t, map[string][]string{
		"A1":  {"harness.TestChain"},
		"A15": {"queue.FuzzTwo", "queue.TestOne"},
		"A17": {"queue.TestOne"},
		"B2":  {"queue.TestOne"},
		"7":   {"queue.TestOne"},
	}, s.Claims)
	require.Equal(t, map[string]bool{"harness.TestChain": true, "queue.TestOne": true, "queue.FuzzTwo": true}, s.Tests)
}

func TestAFaultyClaimIsAnError(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ code, want string }{
		"unknown id":       {"package q\n\n// A99\nfunc TestA(t *T) {}\n", "q/a_test.go:3:1: \"A99\" names no requirement"},
		"in no test":       {"package q\n\n// A9\nfunc helper() {}\n", "q/a_test.go:3:1: the claim on A9 is in no test"},
		"apart from tests": {"package q\n\n// A9\n\nfunc TestA(t *T) {}\n", "is in no test"},
		"on a benchmark":   {"package q\n\n// A9\nfunc BenchmarkA(b *B) {}\n", "is in no test"},
		"does not parse":   {"package", "parse q/a_test.go"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Read(fstest.MapFS{"q/a_test.go": {Data: []byte(c.code)}})
			require.ErrorContains(t, err, c.want)
		})
	}
}

// page returns a page with every requirement; shown replaces the last column of some.
func page(shown map[string]string) Page {
	var b strings.Builder
	b.WriteString("# Requirements\n\n| id | what must hold | where | shown by |\n|---|---|---|---|\n")
	for _, id := range RequirementIDs() {
		column, ok := shown[id]
		if !ok {
			column = "nothing yet"
		}
		b.WriteString("| " + id + " | It holds | queue | " + column + " |\n")
	}
	return Page{Path: "docs/page.md", Kind: "requirement", IDs: RequirementIDs(), Text: b.String()}
}

func TestRewriteChangesTheLastColumnOnly(t *testing.T) {
	t.Parallel()
	before := page(map[string]string{"A1": "`queue.TestGone`", "A2": "nothing yet: needs a second rein", "A3": "nothing yet", "A4": "nothing yet: soon", "A5": "`queue.TestGone`<br>still open: the half"})
	claims := map[string][]string{"A3": {"queue.TestA", "queue.TestB"}, "A4": {"queue.TestA"}}
	after, err := before.Rewrite(claims)
	require.NoError(t, err)
	require.Equal(t, page(map[string]string{
		"A2": "nothing yet: needs a second rein",
		"A3": "`queue.TestA`<br>`queue.TestB`",
		"A4": "`queue.TestA`<br>still open: soon",
		"A5": "nothing yet: the half",
	}).Text, after)
	again, err := Page{Text: after}.Rewrite(claims)
	require.NoError(t, err)
	require.Equal(t, after, again)
	for _, broken := range []string{"| A1 | one | column too few |", "| A1 | It holds | queue | |", "| A1 | | queue | nothing yet |"} {
		_, err = Page{Text: broken}.Rewrite(nil)
		require.ErrorContains(t, err, "A1 needs four columns")
	}
}

func FuzzRewriteIsStable(f *testing.F) {
	f.Add("| A1 | It holds | queue | nothing yet: why |")
	f.Add("| A2 | It holds | queue | `queue.TestA`<br>still open: the half |\n| B1 | x | y | z<br> |")
	claims := map[string][]string{"A1": {"queue.TestA"}}
	f.Fuzz(func(t *testing.T, text string) {
		once, err := Page{Text: text}.Rewrite(claims)
		if err != nil {
			return
		}
		twice, err := Page{Text: once}.Rewrite(claims)
		require.NoError(t, err)
		require.Equal(t, once, twice)
	})
}

func TestCheckCatches(t *testing.T) {
	t.Parallel()
	sources := Sources{Tests: map[string]bool{"queue.TestA": true}, Claims: map[string][]string{"A1": {"queue.TestA"}}}
	good := page(map[string]string{"A1": "`queue.TestA`"}).Text
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"nothing":                {good, nil},
		"a missing requirement":  {strings.Replace(good, "| B46 |", "| x |", 1), []string{"B46 is missing"}},
		"an unknown one":         {good + "| B47 | It holds | queue | nothing yet |\n", []string{"B47 is no requirement"}},
		"one of another page":    {good + "| 7 | It holds | queue | nothing yet |\n", []string{"7 is no requirement"}},
		"one listed twice":       {good + "| B46 | It holds | queue | nothing yet |\n", []string{"B46 is listed twice"}},
		"a claim not on it":      {page(nil).Text, []string{"cmd/gen"}},
		"a test without a claim": {page(map[string]string{"A1": "`queue.TestA`", "A2": "`queue.TestA`"}).Text, []string{"cmd/gen"}},
		"a test that is not":     {page(map[string]string{"A1": "`queue.TestA`", "A2": "`queue.TestZ`"}).Text, []string{"queue.TestZ, which does not exist", "cmd/gen"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := page(nil)
			p.Text = c.text
			faults, err := p.Check(sources)
			require.NoError(t, err)
			require.Len(t, faults, len(c.want))
			for i, want := range c.want {
				require.Contains(t, faults[i], want)
			}
		})
	}
}

func TestAPageMayAskForAReasonWhereThereIsNoTest(t *testing.T) {
	t.Parallel()
	p := Page{
		Path: "docs/page.md", Kind: "case", IDs: []string{"1", "2", "3"}, Reasons: true,
		Text: "| 1 | x | queue | `queue.TestA` |\n| 2 | x | queue | nothing yet: it is not built |\n| 3 | x | queue | nothing yet |\n",
	}
	faults, err := p.Check(Sources{Tests: map[string]bool{"queue.TestA": true}, Claims: map[string][]string{"1": {"queue.TestA"}}})
	require.NoError(t, err)
	require.Equal(t, []string{"docs/page.md:3: 3 has neither a test nor a reason why"}, faults)
}

const module = "example.org/m"

// events builds the output of `go test -json` for the package queue: "action test" per entry.
func events(entries ...string) string {
	var b strings.Builder
	b.WriteString("go: downloading example.org/x v1.0.0\n")
	for _, entry := range entries {
		action, test, _ := strings.Cut(entry, " ")
		b.WriteString(`{"Action":"` + action + `","Package":"example.org/m/queue"`)
		if test != "" {
			b.WriteString(`,"Test":"` + test + `"`)
		}
		b.WriteString("}\n")
	}
	return b.String()
}

func TestCheckResultsCatches(t *testing.T) {
	t.Parallel()
	named := page(map[string]string{"A1": "`queue.TestA`"})
	for name, c := range map[string]struct {
		log  string
		want string
	}{
		"nothing":                   {events("run TestA", "run TestA/b", "pass TestA/b", "pass TestA", "pass"), ""},
		"a test that did not run":   {events("run TestB", "pass TestB", "pass"), "A1 is shown by queue.TestA, which did not run"},
		"a failed one":              {events("run TestA", "fail TestA", "fail"), "queue.TestA, which failed"},
		"one that never ended":      {events("run TestA"), "queue.TestA, which began and never ended"},
		"a skipped one":             {events("run TestA", "skip TestA", "pass"), "queue.TestA, which was skipped"},
		"a skipped part":            {events("run TestA", "run TestA/b", "skip TestA/b", "pass TestA", "pass"), "queue.TestA, which was skipped"},
		"a failed part":             {events("run TestA", "run TestA/b", "fail TestA/b", "skip TestA", "fail"), "queue.TestA, which failed"},
		"a skip that nobody names":  {events("run TestA", "pass TestA", "run TestB", "skip TestB", "pass"), "queue.TestB was skipped"},
		"another module's namesake": {strings.ReplaceAll(events("run TestA", "pass TestA"), module, "example.org/other"), "did not run"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			results, err := ReadResults(strings.NewReader(c.log), module)
			require.NoError(t, err)
			faults, err := named.CheckResults(results)
			require.NoError(t, err)
			faults = append(faults, results.Skips()...)
			if c.want == "" {
				require.Empty(t, faults)
				return
			}
			require.NotEmpty(t, faults)
			require.Contains(t, faults[0], c.want)
		})
	}
}

func TestAResultWithoutEventsIsAnError(t *testing.T) {
	t.Parallel()
	_, err := ReadResults(strings.NewReader("go: no packages\n"), module)
	require.ErrorContains(t, err, "no event")
}

func TestSummaryNamesWhatIsOpen(t *testing.T) {
	t.Parallel()
	line, err := Page{Kind: "requirement", Text: "| A1 | x | queue | `queue.TestA` |\n| A2 | x | queue | nothing yet |\n| A3 | x | queue | `queue.TestA`<br>still open: the half |\n| B1 | x | rein | nothing yet: why |\n"}.Summary()
	require.NoError(t, err)
	require.Equal(t, "1 of 4 requirements are shown by tests; in part: A3; nothing yet: A2 B1", line)
}
