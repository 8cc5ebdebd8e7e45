package faults_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/tests/faults"
)

func TestEveryCellHasAMakerAndAnExpectationOrAReason(t *testing.T) {
	t.Parallel()
	known, names := makers(), map[string]bool{}
	for _, c := range faults.Cells() {
		require.False(t, names[c.Name()], c.Name())
		names[c.Name()] = true
		require.Contains(t, known, c.Kind.Name)
		if c.Left() != "" {
			continue
		}
		e := c.Expected()
		require.NotEmpty(t, e.Outcomes, c.Name())
		require.Equal(t, len(e.Outcomes) > 1, e.Why != "", "%s: several outcomes have a reason, and one has none", c.Name())
	}
}

// A40, A44
func TestTheFixedSetHasEveryKindAndTheWorkerKilledAtEveryBoundaryFromIntentToClose(t *testing.T) {
	t.Parallel()
	var killed []string
	kinds := map[string]bool{}
	for _, c := range faults.Covering() {
		require.Empty(t, c.Left(), c.Name())
		kinds[c.Kind.Name] = true
		if c.Kind.Name == faults.WorkerKilled {
			killed = append(killed, c.Point.Name)
		}
	}
	require.Len(t, kinds, len(faults.Kinds()))
	var wanted []string
	for _, p := range faults.Points() {
		wanted = append(wanted, p.Name)
	}
	wanted = wanted[slices.Index(wanted, "accept.before_intent"):]
	require.Subset(t, killed, wanted)
}

func TestTestsOfTheFaultsElsewhereExist(t *testing.T) {
	t.Parallel()
	for _, o := range faults.Elsewhere() {
		require.NotEmpty(t, o.Tests, o.What)
		for _, name := range o.Tests {
			dir, function, found := strings.Cut(name, ".")
			require.True(t, found, name)
			files, err := filepath.Glob(filepath.Join("..", "..", dir, "*_test.go"))
			require.NoError(t, err)
			require.True(t, slices.ContainsFunc(files, func(file string) bool {
				data, err := os.ReadFile(file)
				require.NoError(t, err)
				return strings.Contains(string(data), "\nfunc "+function+"(")
			}), name)
		}
	}
}

func TestResultsAreReadBackByCommitTheLastOfEachCell(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "results.jsonl")
	for _, r := range []faults.Result{{Cell: "a", Commit: "1"}, {Cell: "a", Commit: "1", Commits: 1}, {Cell: "b", Commit: "2"}} {
		require.NoError(t, faults.Append(file, r))
	}
	cut, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = cut.WriteString(`{"cell":"c","com`)
	require.NoError(t, err)
	require.NoError(t, cut.Close())
	results, err := faults.Read(file, "1")
	require.NoError(t, err)
	require.Equal(t, map[string]faults.Result{"a": {Cell: "a", Commit: "1", Commits: 1}}, results)
}

func TestAPageOfSomeCellsSaysSoAndAFailureIsNamed(t *testing.T) {
	t.Parallel()
	c := faults.Covering()[0]
	r := faults.Result{Cell: c.Name(), Outcome: c.Expected().Outcomes[0], Commits: 1, Verified: true}
	require.Empty(t, r.Wrong(c))
	page := faults.Page(map[string]faults.Result{c.Name(): r}, "abc")
	require.Contains(t, page, "**This page is partial: 1 of ")
	require.Contains(t, page, "commit abc")
	require.Contains(t, page, "1 cells were run, 1 hold, 0 fail")
	require.Contains(t, page, "not run yet")

	r.Commits = 2
	require.Len(t, r.Wrong(c), 1)
	require.Contains(t, faults.Page(map[string]faults.Result{c.Name(): r}, "abc"), "**fails**: 2 commits of the run are on the branch")
}
