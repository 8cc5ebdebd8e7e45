package rein_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/rein"
	"github.com/rein-aharness/harness/rein/credential"
	"github.com/rein-aharness/harness/sandbox"
)

const canary = "canary-5up3r-s3cret"

// faulty is a sandbox that fails where a test wants it to.
type faulty struct {
	put, exec error
	exit      sandbox.Exit
	output    string

	files    map[string]string
	commands []sandbox.Command
}

func (f *faulty) PutFile(_ context.Context, name string, mode fs.FileMode, data []byte) error {
	if f.put != nil && strings.HasSuffix(name, "demo") {
		return f.put
	}
	if f.files == nil {
		f.files = map[string]string{}
	}
	f.files[name] = mode.String() + " " + string(data)
	return nil
}

func (f *faulty) Exec(_ context.Context, command sandbox.Command) (sandbox.Exit, error) {
	f.commands = append(f.commands, command)
	if _, err := command.Output.Write([]byte(f.output)); err != nil {
		return sandbox.Exit{}, err
	}
	return f.exit, f.exec
}

func material(kind credential.InjectKind, target, value string) credential.Material {
	return credential.Material{
		Route: "demo@1.0.0", Inject: credential.Injection{Kind: kind, Target: target}, Value: credential.NewSecret([]byte(value)),
	}
}

func session(argv ...string) rein.Session {
	return rein.Session{
		Run: "run-1", Spec: spec(argv...), Model: noModel, Tools: denyAll, Task: "do it",
		Materials: []credential.Material{
			material(credential.InjectFile, "demo", canary), material(credential.InjectEnv, "DEMO", canary+"-env"),
		},
	}
}

// A28, A31
func TestASessionGetsItsTaskAndCredentialsAndNothingInItsArgv(t *testing.T) {
	t.Parallel()
	box := &faulty{output: "it is " + canary + "-env\n"}
	s := session("/bin/tool", "-x")
	s.Spec.Env = map[string]string{"B": "2", "A": "1"}
	var log bytes.Buffer
	ended, err := rein.Run(t.Context(), box, s, &log)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"/run/harness/task": "-r-------- do it", "/run/harness/demo": "-r-------- " + canary}, box.files)
	require.Len(t, box.commands, 1)
	command := box.commands[0]
	require.Equal(t, []string{"/bin/tool", "-x"}, command.Argv)
	require.Equal(t, []string{"A=1", "B=2", "HARNESS_RUN=run-1", "HARNESS_TASK_FILE=/run/harness/task", "DEMO=" + canary + "-env"}, command.Env)
	require.Equal(t, 30.0, command.Timeout.Seconds())
	require.NotContains(t, log.String(), canary)
	require.EqualValues(t, log.Len(), ended.OutputBytes)
	require.Equal(t, "test-command@1.0.0", ended.Rein)
	require.Zero(t, ended.ExitCode)
	text, err := json.Marshal(ended)
	require.NoError(t, err)
	require.NotContains(t, string(text), canary)
	require.NotContains(t, string(text), "do it")
}

// A14, A21, B1, B2: what is not stated, or cannot be enforced, is not started.
func TestASessionThatIsNotStatedInFullIsNotStarted(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*rein.Session){
		"no tools":         func(s *rein.Session) { s.Tools = rein.Tools{} },
		"no model":         func(s *rein.Session) { s.Model = rein.Model{} },
		"no spec":          func(s *rein.Session) { s.Spec = rein.Spec{} },
		"no run":           func(s *rein.Session) { s.Run = "" },
		"unenforceable":    func(s *rein.Session) { s.Tools.Scope, s.Tools.Allow = rein.ScopeAllow, []string{"search"} },
		"task not UTF-8":   func(s *rein.Session) { s.Task = "\xff" },
		"task too long":    func(s *rein.Session) { s.Task = strings.Repeat("x", 1<<19) },
		"negative log":     func(s *rein.Session) { s.LogBytes = -1 },
		"wiped file":       func(s *rein.Session) { s.Materials[0].Value.Wipe() },
		"wiped variable":   func(s *rein.Session) { s.Materials[1].Value.Wipe() },
		"unknown delivery": func(s *rein.Session) { s.Materials[1].Inject.Kind = "argv" },
	} {
		box := &faulty{}
		s := session("/bin/tool")
		change(&s)
		ended, err := rein.Run(t.Context(), box, s, &bytes.Buffer{})
		require.True(t, slices.Contains([]evidence.Code{
			evidence.CodeSessionStartFailed, evidence.CodeCredentialFailed, evidence.CodeCredentialUndeclared,
		}, evidence.CodeOf(err)), "%s: %v", name, err)
		require.Empty(t, box.commands, name)
		require.Equal(t, -1, ended.ExitCode, name)
	}
}

// A14, A43
func TestTheEndOfASessionIsReportedWhateverItWas(t *testing.T) {
	t.Parallel()
	lost := evidence.Fail(evidence.StageSession, evidence.CodeSandboxLost, "", nil)
	cancelled := errors.New("lease lost")
	for name, c := range map[string]struct {
		box  faulty
		code evidence.Code
		exit int
		same error
	}{
		"code":            {faulty{exit: sandbox.Exit{Code: 3}}, evidence.CodeSessionFailed, 3, nil},
		"signal":          {faulty{exit: sandbox.Exit{Code: -1, Signal: "KILL"}}, evidence.CodeSessionFailed, -1, nil},
		"lost":            {faulty{exec: lost}, evidence.CodeSandboxLost, -1, lost},
		"cause of an end": {faulty{exec: cancelled}, evidence.CodeUnclassified, -1, cancelled},
		"no file":         {faulty{put: lost}, evidence.CodeSandboxLost, -1, lost},
	} {
		box := c.box
		box.output = "said before the end\n"
		var log bytes.Buffer
		ended, err := rein.Run(t.Context(), &box, session("/bin/tool"), &log)
		require.Equal(t, c.code, evidence.CodeOf(err), name)
		if c.same != nil {
			require.ErrorIs(t, err, c.same, name)
		}
		require.Equal(t, c.exit, ended.ExitCode, name)
		if len(box.commands) > 0 {
			require.Equal(t, box.output, log.String(), name)
			require.EqualValues(t, log.Len(), ended.OutputBytes, name)
		}
	}
	ended, err := rein.Run(t.Context(), &faulty{output: "x"}, session("/bin/tool"), brokenWriter{})
	require.ErrorIs(t, err, errDisk)
	require.Equal(t, -1, ended.ExitCode)
}
