package mutants

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../.."

func TestEveryPatchIsAMutantAndApplies(t *testing.T) {
	t.Parallel()
	var want []string
	for _, m := range All() {
		want = append(want, filepath.Join("testdata", m.Name+".patch"))
		apply := exec.CommandContext(t.Context(), "git", "apply", "--check", filepath.Join("tests", "mutants", "testdata", m.Name+".patch"))
		apply.Dir = root
		output, err := apply.CombinedOutput()
		require.NoError(t, err, "%s no longer applies: %s", m.Name, output)
	}
	patches, err := filepath.Glob("testdata/*.patch")
	require.NoError(t, err)
	require.ElementsMatch(t, want, patches)
}

// A test that was renamed, or says something else by now, would otherwise be noticed only when all mutants are run.
func TestEveryTestAndInvariantOfAMutantIsThere(t *testing.T) {
	t.Parallel()
	for _, m := range All() {
		require.Regexp(t, regexp.MustCompile(`^[a-z]+$`), m.Name)
		require.NotEmpty(t, m.Wrong, m.Name)
		require.Greater(t, len(strings.Fields(m.Invariant)), 3, "%s: %q could be said by accident", m.Name, m.Invariant)
		files, err := filepath.Glob(filepath.Join(root, m.Package, "*_test.go"))
		require.NoError(t, err)
		var source strings.Builder
		for _, file := range files {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			source.Write(data)
		}
		name, row, _ := strings.Cut(m.Test, "/")
		require.Contains(t, source.String(), "\nfunc "+name+"(t *testing.T) {", m.Name)
		require.Contains(t, source.String(), strings.ReplaceAll(row, "_", " "), m.Name)
		require.Contains(t, source.String(), m.Invariant, m.Name)
	}
}

func TestPatternIsOfOneTestAlone(t *testing.T) {
	t.Parallel()
	require.Equal(t, `^TestA$`, Mutant{Test: "TestA"}.pattern())
	require.Equal(t, `^TestA$/^a_row\.$`, Mutant{Test: "TestA/a_row."}.pattern())
}

func TestMutantIsCaughtOnlyByItsTestAndItsInvariant(t *testing.T) {
	t.Parallel()
	m := Mutant{Test: "TestA/b", Invariant: "nothing is lost"}
	for output, is := range map[string]error{
		"--- FAIL: TestA (0s)\n    --- FAIL: TestA/b (0s)\n Messages: nothing is lost": nil,
		"--- FAIL: TestA (0s)\n    --- FAIL: TestA/b (0s)\n Messages: another":         ErrSurvived,
		"--- FAIL: TestA (0s)\n    --- PASS: TestA/b (0s)\n Messages: nothing is lost": ErrSurvived,
		"--- PASS: TestA (0s)\n    --- PASS: TestA/b (0s)":                             ErrSurvived,
		"nothing is lost\nFAIL example [build failed]":                                 ErrSurvived,
		"testing: warning: no tests to run":                                            ErrSurvived,
	} {
		require.ErrorIs(t, m.caught(output), is, output)
	}
	require.NoError(t, m.sound("    --- PASS: TestA/b (0s)"))
	require.ErrorIs(t, m.sound("    --- FAIL: TestA/b (0s)"), ErrNotFair)
	require.ErrorIs(t, m.sound("testing: warning: no tests to run"), ErrNotFair)
}
