package rein

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/rein/credential"
	"github.com/rein-aharness/harness/sandbox"
)

// Variables that every session gets.
const (
	variableRun  = "HARNESS_RUN"       // the run's id
	variableTask = "HARNESS_TASK_FILE" // where the task is
)

// maxTaskBytes bounds a task's text.
const maxTaskBytes = 256 << 10

// Sandbox is what a session needs of a *sandbox.Sandbox. It is an interface so that tests can inject faults.
type Sandbox interface {
	PutFile(ctx context.Context, name string, mode fs.FileMode, data []byte) error
	Exec(ctx context.Context, command sandbox.Command) (sandbox.Exit, error)
}

// Session is everything one session runs with.
type Session struct {
	Run   string // the run's id
	Spec  Spec
	Model Model
	Tools Tools
	// Task is the text of the task, at most 256 KiB. The rein finds it in a file; it is in no argv and in no evidence.
	Task string
	// Materials are the credentials released to this session.
	Materials []credential.Material
	// LogBytes bounds the session log; zero means DefaultLogBytes.
	LogBytes int64
}

// Run runs the session to its end and writes its log. It reports how the session ended, as far as it was seen, also beside an
// error; what was released is the credential session's to add. Nothing is started unless everything was put in place.
//
// A session that ends with a code other than zero, or by a signal, has the code session_failed. What is not stated or cannot be
// enforced has session_start_failed, a credential without a value credential_failed. The sandbox's own failures and the cause of
// ctx's end come through as they are. (A14, A21, B1)
func Run(ctx context.Context, box Sandbox, session Session, log io.Writer) (evidence.SessionEnded, error) {
	ended := evidence.SessionEnded{Rein: session.Spec.Revision, ExitCode: -1}
	if err := session.validate(); err != nil {
		return ended, evidence.Fail(evidence.StageSession, evidence.CodeSessionStartFailed, session.Spec.Revision, err)
	}
	if err := session.place(ctx, box); err != nil {
		return ended, err
	}
	env, values, err := session.environment()
	if err != nil {
		return ended, err
	}
	limit := session.LogBytes
	if limit == 0 {
		limit = DefaultLogBytes
	}
	sessionLog := NewLog(log, limit, values...)
	began := time.Now()
	exit, err := box.Exec(ctx, sandbox.Command{
		Argv: session.Spec.Argv, Env: env, Timeout: time.Duration(session.Spec.TimeoutSeconds) * time.Second, Output: sessionLog,
	})
	ended.DurationMillis = time.Since(began).Milliseconds()
	if closeErr := sessionLog.Close(); closeErr != nil {
		err = errors.Join(err, evidence.Fail(evidence.StageSession, evidence.CodeSessionFailed, "session log", closeErr))
	}
	var cut bool
	ended.OutputBytes, ended.OutputDigest, cut = sessionLog.Kept()
	ended.OutputTruncated = cut || exit.OutputTruncated
	if err != nil {
		return ended, err
	}
	ended.ExitCode, ended.Signal = exit.Code, exit.Signal
	return ended, judge(exit)
}

// judge takes the end of the command for the end of the session.
func judge(exit sandbox.Exit) error {
	switch {
	case exit.Signal != "":
		return evidence.Fail(evidence.StageSession, evidence.CodeSessionFailed, "signal "+exit.Signal, nil)
	case exit.Code != 0:
		return evidence.Fail(evidence.StageSession, evidence.CodeSessionFailed, "exit "+strconv.Itoa(exit.Code), nil)
	default:
		return nil
	}
}

func (s Session) validate() error {
	for _, check := range []func() error{s.Spec.Validate, s.Tools.Validate, s.Model.Validate} {
		if err := check(); err != nil {
			return err
		}
	}
	switch {
	case s.Run == "":
		return errors.New("the session is of no run")
	case len(s.Task) > maxTaskBytes || !utf8.ValidString(s.Task):
		return fmt.Errorf("the task is longer than %d bytes or not UTF-8", maxTaskBytes)
	case s.LogBytes < 0:
		return errors.New("the bound of the session log is negative")
	default:
		return s.Spec.Compatible(s.Tools, s.Model)
	}
}

// onlyOwner lets the session's user read a file and nobody write it.
const onlyOwner fs.FileMode = 0o400

// place puts the task and the file credentials into the sandbox.
func (s Session) place(ctx context.Context, box Sandbox) error {
	if err := box.PutFile(ctx, path.Join(credential.FileDir, credential.TaskFile), onlyOwner, []byte(s.Task)); err != nil {
		return err
	}
	for _, material := range s.Materials {
		if material.Inject.Kind != credential.InjectFile {
			continue
		}
		value, err := reveal(material)
		if err != nil {
			return err
		}
		err = box.PutFile(ctx, material.Inject.Place(), onlyOwner, value)
		clear(value)
		if err != nil {
			return err
		}
	}
	return nil
}

// environment is the command's variables, and every released value for the log to mask.
func (s Session) environment() (env []string, values [][]byte, err error) {
	for _, name := range slices.Sorted(maps.Keys(s.Spec.Env)) {
		env = append(env, name+"="+s.Spec.Env[name])
	}
	env = append(env, variableRun+"="+s.Run, variableTask+"="+path.Join(credential.FileDir, credential.TaskFile))
	for _, material := range s.Materials {
		value, err := reveal(material)
		if err != nil {
			return nil, nil, err
		}
		values = append(values, value)
		switch material.Inject.Kind {
		case credential.InjectFile:
		case credential.InjectEnv:
			env = append(env, material.Inject.Target+"="+string(value))
		default:
			return nil, nil, evidence.Fail(evidence.StageSession, evidence.CodeCredentialUndeclared, material.Route,
				errors.New("the way of injection is unknown"))
		}
	}
	return env, values, nil
}

func reveal(material credential.Material) ([]byte, error) {
	value := material.Value.Reveal()
	if len(value) == 0 {
		return nil, evidence.Fail(evidence.StageSession, evidence.CodeCredentialFailed, material.Route,
			errors.New("the released value is empty"))
	}
	return value, nil
}
