package canary_test

import (
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/rein/credential"
	"github.com/rein-aharness/harness/tests/deployment"
)

const (
	blockPath = credential.FileDir + "/" + blockFile
	oddPath   = credential.FileDir + "/" + oddFile
)

// shown writes a file's content to standard output (cat) or error (warn) in each of the encodings.
func shown(by, path string, encodings ...string) (commands [][]string) {
	for _, encoding := range encodings {
		commands = append(commands, []string{"encode", path, encoding, "/tmp/shown"}, []string{by, "/tmp/shown"})
	}
	return commands
}

func do(parts ...[][]string) (all [][]string) {
	for _, part := range parts {
		all = append(all, part...)
	}
	return all
}

func one(command ...string) [][]string { return [][]string{command} }

// long writes more than a piece of the session log, and keeps the session there until it is ended from outside.
func long() [][]string { return do(one("lines", "4000"), one("sleep", "5m")) }

// end is one way for a run to end, and what its session does before.
type end struct {
	session [][]string
	bring   func(t *testing.T, s *scene, run string, worker *deployment.Process) // to its end, from the session
	state   evidence.State
	code    evidence.Code
}

func ends() map[string]end {
	return map[string]end{
		"completed": {
			session: do(one("env"), one("cat", blockPath), one("warn", oddPath), one("getenv", linesVariable, "/tmp/lines"), one("warn", "/tmp/lines"),
				shown("cat", blockPath, "base64"), shown("warn", oddPath, "base64", "url"), one("write", "a.txt", "changed"), one("sleep", "2s")),
			state: evidence.StateCompleted,
		},
		"failed": {
			session: do(shown("warn", oddPath, "json", "quoted"), shown("cat", blockPath, "json", "quoted"), one("try", "expect", blockPath, "x"),
				one("sleep", "2s"), one("expect", oddPath, "x")),
			state: evidence.StateFailed, code: evidence.CodeSessionFailed,
		},
		"cancelled": {
			session: do(shown("warn", blockPath, "hex", "lines"), shown("cat", oddPath, "hex"), long()),
			bring: func(t *testing.T, s *scene, run string, _ *deployment.Process) {
				output, code := s.command(t, "runs", "cancel", run, "--operator", "ada", "--reason", "seen enough", "--wait", "--log-level", "debug")
				require.Equal(t, int(evidence.ExitCancelled), code, "%s", output)
			},
			state: evidence.StateCancelled, code: evidence.CodeCancelled,
		},
		"killed": {
			session: do(one("env"), shown("warn", blockPath, "lines"), one("cat", oddPath), long()),
			bring: func(t *testing.T, s *scene, _ string, worker *deployment.Process) {
				worker.Kill(t)
				s.worker(t, "second")
			},
			state: evidence.StateFailed, code: evidence.CodeWorkerLost,
		},
		"crashed": {
			session: do(one("env"), one("cat", blockPath), one("warn", oddPath), long()),
			bring: func(t *testing.T, s *scene, _ string, worker *deployment.Process) {
				worker.Signal(t, syscall.SIGQUIT)
				require.NotZero(t, worker.Ended(t, within))
				for _, part := range []string{"SIGQUIT", "goroutine ", "rein.Run(", "harness.(*venue).run("} {
					require.Contains(t, worker.Output(), part, "the dump is of a worker in its session")
				}
				s.worker(t, "second")
			},
			state: evidence.StateFailed, code: evidence.CodeWorkerLost,
		},
	}
}

// A27, A28, A30, CASES 21, 31, 40: a session prints its credentials in many forms, and its run completes, fails, is cancelled, or
// loses its worker to a kill or to a crash that dumps every goroutine. Whatever the end, no secret is anywhere but in its home, and
// no token lives.
func TestNoSecretShowsHoweverARunEnds(t *testing.T) {
	t.Parallel()
	for name, e := range ends() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := set(t)
			run := s.emit(t, name, s.profile(t, name, e.session...))
			worker := s.worker(t, "first", "--log-format", "json")
			s.inSession(t, run, worker, argv(e.session))
			if e.bring != nil {
				s.logged(t, run)
				e.bring(t, s, run, worker)
			}
			ended := s.final(t, run)
			require.Equal(t, e.state, ended.State, "%s %s", ended.FailedStage, ended.Code)
			require.Equal(t, e.code, ended.Code)
			said, _ := s.command(t, "runs", "logs", run)
			require.GreaterOrEqual(t, strings.Count(said, credential.Redacted), 3, "what was printed is masked, neighbours as one")
			s.nowhere(t, run)
			deployment.Verify(t, s.open(t), run)
		})
	}
}

// A27, A28, A30: a session that leaves a credential in a file's content, in any form, in a name or in a link is refused, and so is
// one that names after it what cannot be taken at all; the refusals do not show it.
func TestASessionThatLeavesACredentialInItsChangeIsRefused(t *testing.T) {
	t.Parallel()
	s := set(t)
	token := do(one("getenv", tokenVariable, "/tmp/token"), one("cat", "/tmp/token"))
	runs := map[string]evidence.Code{}
	for name, c := range map[string]struct {
		session [][]string
		code    evidence.Code
	}{
		"raw":             {one("getenv", tokenVariable, "leak.txt"), evidence.CodeCredentialInChange},
		"lines":           {one("encode", blockPath, "lines", "leak.txt"), evidence.CodeCredentialInChange},
		"base64":          {one("encode", blockPath, "base64", "a.txt"), evidence.CodeCredentialInChange},
		"quoted":          {one("encode", oddPath, "json", "leak.json"), evidence.CodeCredentialInChange},
		"name":            {do(token, one("name", "/tmp/token", ".")), evidence.CodeCredentialInChange},
		"link":            {do(token, one("point", "/tmp/token", "link")), evidence.CodeCredentialInChange},
		"pipe":            {do(token, one("pipe", "/tmp/token", ".")), evidence.CodeFileTypeRefused},
		"lines in a name": {do(one("getenv", linesVariable, "/tmp/lines"), one("pipe", "/tmp/lines", ".")), evidence.CodeFileTypeRefused},
	} {
		branch := strings.ReplaceAll(name, " ", "-")
		runs[s.emit(t, branch, s.profile(t, branch, c.session...))] = c.code
	}
	s.worker(t, "only")
	var ids []string
	for id, code := range runs {
		run := s.final(t, id)
		require.Equal(t, evidence.StateFailed, run.State)
		said, _ := s.command(t, "runs", "logs", id)
		require.Equal(t, code, run.Code, "%s: %s", run.TriggerKey, said)
		require.Empty(t, s.repo.Ref(t, run.TargetRef))
		ids = append(ids, id)
	}
	s.nowhere(t, ids...)
}
