package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/tests/stack"
)

// TestMain lets the test binary be the command harness in the scripts.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"harness": main})
}

// TestScripts shows arguments, output and exit codes where no part of the stack is needed: testdata/script.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", RequireExplicitExec: true, RequireUniqueNames: true,
		Cmds:  map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
		Setup: func(e *testscript.Env) error { return share(e, "profile.yaml", "definition.yaml", "harness.yaml") },
	})
}

// TestScriptsOnADatabase shows the commands that need only the database, each script on one of its own: testdata/database.
func TestScriptsOnADatabase(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/database/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			url := stack.Load(t).Database(t)
			testscript.Run(t, testscript.Params{
				Files: []string{file}, RequireExplicitExec: true,
				Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
				Setup: func(e *testscript.Env) error {
					if err := share(e, "profile.yaml", "definition.yaml", "harness.yaml"); err != nil {
						return err
					}
					return os.WriteFile(filepath.Join(e.WorkDir, "database.url"), []byte(url), 0o600)
				},
			})
		})
	}
}

// share puts files that scripts have in common into a script's folder. The configuration's database is one that is not there.
func share(e *testscript.Env, names ...string) error {
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(e.WorkDir, name), data, 0o600); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(e.WorkDir, "database.url"), []byte("postgres://nobody@127.0.0.1:1/none?connect_timeout=2"), 0o600)
}

// exits runs a command and requires its exit code: `exits 2 harness emit`.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARGUMENT…]")
	}
	code := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		code = exit.ExitCode()
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, not %s", code, args[0])
	}
}

// command runs a command line in this process, with nobody at its standard input.
func command(t *testing.T, args ...string) (code evidence.ExitCode, stdout, stderr string) {
	t.Helper()
	in, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer in.Close()
	var out, errs bytes.Buffer
	code = run(args, streams{in: in, out: &out, err: &errs})
	return code, out.String(), errs.String()
}

// succeed runs a command line that must succeed, and gives its output.
func succeed(t *testing.T, args ...string) string {
	t.Helper()
	code, out, errs := command(t, args...)
	require.Equal(t, evidence.ExitCompleted, code, "%s", fmt.Sprint(args, out, errs))
	return out
}
