package sandbox_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/sandbox"
)

func TestHowACommandEndsIsReported(t *testing.T) {
	t.Parallel()
	eachRuntime(t, func(t *testing.T, _ string, s *sandbox.Sandbox) {
		_, exit, err := runIn(t, s, "exit", "7")
		require.NoError(t, err)
		require.Equal(t, 7, exit.Code)
		require.Empty(t, exit.Signal)

		exit, err = s.Exec(t.Context(), sandbox.Command{Argv: []string{"testprog", "die"}})
		require.NoError(t, err)
		require.Equal(t, -1, exit.Code)
		require.Equal(t, "SIGKILL", exit.Signal)

		must(t, s, "touch", "/workspace/plain")
		for _, argv := range [][]string{{"missing"}, {"/workspace/plain"}, {"/workspace"}, {strings.Repeat("x", 5000)}} {
			_, err = s.Exec(t.Context(), sandbox.Command{Argv: argv})
			requireCode(t, err, evidence.CodeSessionStartFailed)
		}
		_, err = s.Exec(t.Context(), sandbox.Command{Argv: []string{"testprog", "echo"}, Dir: "/missing"})
		requireCode(t, err, evidence.CodeSessionStartFailed)
	})
}

// CASES 34
func TestArgumentsAndVariablesArriveByteForByte(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, openVenue(t), testSpec(t, sandbox.RuntimeRunc))
	odd := "\xff\x01 \" \n <&>\u2028"
	var out bytes.Buffer
	_, err := s.Exec(t.Context(), sandbox.Command{Argv: []string{"testprog", "echo", odd}, Output: &out})
	require.NoError(t, err)
	require.Equal(t, odd+"\n", out.String())
	out.Reset()
	_, err = s.Exec(t.Context(), sandbox.Command{Argv: []string{"testprog", "env"}, Env: []string{"ODD=" + odd, "HOME=/tmp"}, Output: &out})
	require.NoError(t, err)
	require.Contains(t, out.String(), "ODD="+odd+"\n")
	require.Contains(t, out.String(), "HOME=/tmp\n")
	require.NotContains(t, out.String(), "HOME=/home/agent")
}

// A24
func TestTheOutputBoundHoldsForAllCommandsTogether(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, openVenue(t), testSpec(t, sandbox.RuntimeRunc))
	must(t, s, "line", "600000")
	out, exit, err := runIn(t, s, "line", "600000")
	requireCode(t, err, evidence.CodeOutputExceeded)
	require.Len(t, out, 1<<20-600000)
	require.True(t, exit.OutputTruncated)
}

func TestAFailingSinkEndsTheCommand(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, openVenue(t), testSpec(t, sandbox.RuntimeRunc))
	full := errors.New("log is full")
	_, err := s.Exec(t.Context(), sandbox.Command{Argv: []string{"testprog", "line", "500000"}, Output: sink{full}})
	require.ErrorIs(t, err, full)
	require.Equal(t, "on\n", must(t, s, "echo", "on"))
}

type sink struct{ err error }

func (s sink) Write([]byte) (int, error) { return 0, s.err }

func TestAFileOfTheRunFolderIsWrittenOnce(t *testing.T) {
	t.Parallel()
	eachRuntime(t, func(t *testing.T, _ string, s *sandbox.Sandbox) {
		name := sandbox.RunDir + "/task"
		require.NoError(t, s.PutFile(t.Context(), name, 0o444, bytes.Repeat([]byte("t"), 200_000)))
		require.Len(t, must(t, s, "cat", name), 200_000)
		requireCode(t, s.PutFile(t.Context(), name, 0o444, nil), evidence.CodeSessionStartFailed)
		must(t, s, "symlink", "/workspace/elsewhere", sandbox.RunDir+"/link")
		requireCode(t, s.PutFile(t.Context(), sandbox.RunDir+"/link", 0o444, nil), evidence.CodeSessionStartFailed)
		require.NoError(t, s.PutFile(t.Context(), sandbox.RunDir+"/empty", 0o400, nil))
		require.Empty(t, must(t, s, "cat", sandbox.RunDir+"/empty"))
	})
}
