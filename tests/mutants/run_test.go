package mutants

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// module is the tree of a small module whose tests find one fault in two.
var module = map[string]string{
	"go.mod": "module example.org/sum\n\ngo 1.26\n",
	"sum.go": "package sum\n\nfunc Sum(a, b int) int {\n\treturn a + b\n}\n",
	"sum_test.go": `package sum

import "testing"

func TestSum(t *testing.T) {
	if Sum(2, 2) != 4 {
		t.Fatal("two and two are four")
	}
}

func TestBroken(t *testing.T) { t.Fatal("always") }
`,
}

// instead is a patch of sum.go.
func instead(line string) string {
	return "--- a/sum.go\n+++ b/sum.go\n@@ -1,5 +1,5 @@\n package sum\n \n func Sum(a, b int) int {\n-\treturn a + b\n+\t" + line + "\n }\n"
}

// write makes the files of a folder.
func write(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	return dir
}

func TestRunTellsWhatIsCaughtFromWhatIsNotAndTouchesNothing(t *testing.T) {
	t.Parallel()
	tree := write(t, module)
	output, err := exec.CommandContext(t.Context(), "git", "init", "-q", tree).CombinedOutput()
	require.NoError(t, err, "%s", output)
	patches := write(t, map[string]string{
		"minus.patch":   instead("return a - b"),
		"times.patch":   instead("return a * b"),
		"typo.patch":    instead("return a + c"),
		"stale.patch":   strings.Replace(instead("return 0"), "-\treturn a + b", "-\treturn b + a", 1),
		"another.patch": instead("return 1"),
		"broken.patch":  instead("return 2"),
	})
	four := func(name string) Mutant {
		return Mutant{Name: name, Wrong: "w", Package: ".", Test: "TestSum", Invariant: "two and two are four"}
	}
	another, broken := four("another"), four("broken")
	another.Invariant, broken.Test = "three and three are six", "TestBroken"

	var out strings.Builder
	err = Run(t.Context(), tree, patches,
		[]Mutant{four("minus"), four("times"), four("typo"), four("stale"), another, broken, four("minus")}, nil, &out)
	require.EqualError(t, err, "not caught: times, typo, stale, another, broken", out.String())
	for _, line := range []string{
		"1/7 minus: w\n    caught, ", "2/7 times: w\n    NOT CAUGHT, ", "survived: TestSum does not fail", "the mutant does not build",
		"undefined: c", "the patch does not apply", `survived: TestSum fails, but does not say "three and three are six"`,
		"says nothing: TestBroken does not pass without it", "7/7 minus: w\n    caught, ", "2 of 7 mutants caught\n",
	} {
		require.Contains(t, out.String(), line)
	}
	for name, text := range module {
		data, err := os.ReadFile(filepath.Join(tree, name))
		require.NoError(t, err)
		require.Equal(t, text, string(data))
	}
}
