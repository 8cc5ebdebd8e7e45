package requirements

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// write makes a module of one package per entry and returns its folder.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	files["go.mod"] = "module " + module + "\n\ngo 1.26\n"
	for name, content := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}
	return dir
}

// goTest runs the go command's tests in dir and returns what it printed.
func goTest(t *testing.T, dir string, flags ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append(append([]string{"test"}, flags...), "./...")...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	out, err := cmd.Output()
	var exit *exec.ExitError
	require.True(t, err == nil || errors.As(err, &exit), "run go test: %v", err)
	return out
}

func passing() map[string]string {
	return map[string]string{
		"good/a_test.go": "package good\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {\n\tt.Log(\"quiet\")\n\tt.Run(\"part\", func(t *testing.T) {})\n}\n\nfunc FuzzA(f *testing.F) {\n\tf.Add(1)\n\tf.Fuzz(func(*testing.T, int) {})\n}\n",
		"none/none.go":   "package none\n",
	}
}

func TestTranscriptOfPassingTestsIsTheUsualOne(t *testing.T) {
	t.Parallel()
	dir := write(t, passing())
	raw := goTest(t, dir, "-json", "-count=1")
	var kept, people bytes.Buffer
	ok, err := Transcript(bytes.NewReader(raw), &kept, &people)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, string(raw), kept.String())
	require.Regexp(t, `(?m)^ok  \texample.org/m/good\t[0-9.]+s$`, people.String())
	require.Regexp(t, `(?m)^\?   \texample.org/m/none\t\[no test files\]$`, people.String())
	require.NotContains(t, people.String(), "quiet")
	require.NotContains(t, people.String(), "PASS")

	results, err := ReadResults(&kept, module)
	require.NoError(t, err)
	require.Equal(t, Results{"good.TestA": Passed, "good.FuzzA": Passed}, results)
}

func TestTranscriptOfFailuresSaysWhatPlainGoTestSays(t *testing.T) {
	t.Parallel()
	files := passing()
	files["bad/a_test.go"] = "package bad\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {\n\tt.Run(\"part\", func(t *testing.T) { t.Error(\"why\") })\n\tt.Run(\"other\", func(t *testing.T) { t.Log(\"quiet\") })\n}\n\nfunc TestB(t *testing.T) { t.Log(\"quiet\") }\n"
	files["broken/a_test.go"] = "package broken\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) { undefined() }\n"
	files["panics/a_test.go"] = "package panics\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) { panic(\"at once\") }\n"
	dir := write(t, files)
	var kept, people bytes.Buffer
	ok, err := Transcript(bytes.NewReader(goTest(t, dir, "-json", "-count=1")), &kept, &people)
	require.NoError(t, err)
	require.False(t, ok)
	got := people.String()
	for _, want := range []string{
		`(?m)^--- FAIL: TestA \([0-9.]+s\)\n    --- FAIL: TestA/part \([0-9.]+s\)\n        a_test.go:6: why\nFAIL\n`,
		`(?m)^FAIL\texample.org/m/bad\t[0-9.]+s$`, `(?m)^FAIL\texample.org/m/broken \[build failed\]$`, `undefined: undefined`,
		`panic: at once`, `(?m)^FAIL\texample.org/m/panics\t`, `(?m)^ok  \texample.org/m/good\t`, `(?m)^FAIL\n\z`,
	} {
		require.Regexp(t, want, got)
	}
	require.NotContains(t, got, "quiet")

	// The closing lines are those of the plain command.
	plain := string(goTest(t, dir, "-count=1"))
	closing := regexp.MustCompile(`(?m)^(ok  |FAIL|\?   )\t\S+`)
	require.ElementsMatch(t, closing.FindAllString(plain, -1), closing.FindAllString(got, -1))

	results, err := ReadResults(&kept, module)
	require.NoError(t, err)
	require.Equal(t, Results{"good.TestA": Passed, "good.FuzzA": Passed, "bad.TestA": Failed, "bad.TestB": Passed, "panics.TestA": Failed}, results)
}

func TestTranscriptOfNothingOrOfACutRunIsAFailure(t *testing.T) {
	t.Parallel()
	for name, log := range map[string]string{
		"empty":     "",
		"not json":  "go: go.mod file not found\n",
		"cut short": `{"Action":"run","Package":"example.org/m/queue","Test":"TestA"}` + "\n" + `{"Action":"output","Package":"example.org/m/queue","Test":"TestA","Output":"last words\n"}` + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var kept, people bytes.Buffer
			ok, err := Transcript(strings.NewReader(log), &kept, &people)
			require.NoError(t, err)
			require.False(t, ok)
			require.True(t, strings.HasSuffix(people.String(), "FAIL\n"))
			if name == "cut short" {
				require.Contains(t, people.String(), "last words\nFAIL\texample.org/m/queue [never ended]\n")
			}
		})
	}
}

func TestTranscriptNamesSkippedTests(t *testing.T) {
	t.Parallel()
	log := `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"--- SKIP: TestA (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}
{"Action":"pass","Package":"p"}
`
	var kept, people bytes.Buffer
	ok, err := Transcript(strings.NewReader(log), &kept, &people)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "--- SKIP: TestA (0.00s)\nok  \tp\t0.1s\n", people.String())
}

func TestTranscriptFailsWhenTheResultCannotBeKept(t *testing.T) {
	t.Parallel()
	full := errors.New("disk full")
	_, err := Transcript(strings.NewReader(`{"Action":"start","Package":"p"}`+"\n"), failing{full}, &bytes.Buffer{})
	require.ErrorIs(t, err, full)
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
