package rein_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/rein"
)

func spec(argv ...string) rein.Spec {
	return rein.Spec{
		Revision: "test-command@1.0.0", Kind: rein.KindCommand, Argv: argv, TimeoutSeconds: 30,
		Author: rein.Author{Name: "Harness", Email: "harness@localhost"}, Message: "Change things\n\nFor {run} of {definition}.",
	}
}

var (
	denyAll = rein.Tools{Revision: "no-tools@1.0.0", Scope: rein.ScopeDenyAll}
	noModel = rein.Model{Revision: "no-model@1.0.0", Kind: rein.ModelNone}
)

// CASES 33
func TestASpecThatCouldAddToTheCommitOrTheProgramIsRefused(t *testing.T) {
	t.Parallel()
	require.NoError(t, spec("/bin/x").Validate())
	for name, change := range map[string]func(*rein.Spec){
		"name with a newline":     func(s *rein.Spec) { s.Author.Name = "a\nb" },
		"name with an address":    func(s *rein.Spec) { s.Author.Name = "a <b@c>" },
		"name of spaces":          func(s *rein.Spec) { s.Author.Name = "  " },
		"name with hidden":        func(s *rein.Spec) { s.Author.Name = "a\u202eb" },
		"email with a newline":    func(s *rein.Spec) { s.Author.Email = "a@b\nc" },
		"email with a bracket":    func(s *rein.Spec) { s.Author.Email = "a@b> x" },
		"message with NUL":        func(s *rein.Spec) { s.Message = "a\x00" },
		"message without a title": func(s *rein.Spec) { s.Message = "\n\nbody" },
		"no argv":                 func(s *rein.Spec) { s.Argv = nil },
		"argv with NUL":           func(s *rein.Spec) { s.Argv = []string{"/bin/x", "a\x00b"} },
		"argv with an escape":     func(s *rein.Spec) { s.Argv = []string{"/bin/x", "\x1b[2J"} },
		"path not clean":          func(s *rein.Spec) { s.Argv = []string{"/bin/../x"} },
		"long argument":           func(s *rein.Spec) { s.Argv = []string{"/x", strings.Repeat("a", 5000)} },
		"no timeout":              func(s *rein.Spec) { s.TimeoutSeconds = 0 },
		"other kind":              func(s *rein.Spec) { s.Kind = "acp" },
		"no kind":                 func(s *rein.Spec) { s.Kind = "" },
		"variable of the harness": func(s *rein.Spec) { s.Env = map[string]string{"HARNESS_RUN": "x"} },
		"path variable":           func(s *rein.Spec) { s.Env = map[string]string{"PATH": "/tmp"} },
		"variable with =":         func(s *rein.Spec) { s.Env = map[string]string{"A=B": "x"} },
	} {
		changed := spec("/bin/x")
		change(&changed)
		require.Error(t, changed.Validate(), name)
	}
}

// A29
func TestASecretInASpecIsNamedAsOne(t *testing.T) {
	t.Parallel()
	for _, argument := range []string{
		"--token=abc", "--api-key", "-password", "https://user:pw@host/", "AKIA0123456789ABCDEF", "-----BEGIN RSA PRIVATE KEY-----",
	} {
		require.ErrorIs(t, spec("/bin/x", argument).Validate(), rein.ErrCarriesSecret, argument)
	}
	for _, argument := range []string{"--token-file=/run/harness/token", "--password-file", "tokens.go", "https://host:8080/x@y"} {
		require.NoError(t, spec("/bin/x", argument).Validate(), argument)
	}
	for name, value := range map[string]string{"NPM_TOKEN": "x", "DB_PASSWORD": "x", "X": "glpat-0123456789abcdefghij"} {
		s := spec("/bin/x")
		s.Env = map[string]string{name: value}
		err := s.Validate()
		require.ErrorIs(t, err, rein.ErrCarriesSecret, name)
		require.NotContains(t, err.Error(), "glpat-0")
	}
}

// A21, B1, B2, B12
func TestAToolProfileIsStatedInFullAndDeniesTheRest(t *testing.T) {
	t.Parallel()
	for name, tools := range map[string]rein.Tools{
		"absent":              {Revision: "t@1.0.0"},
		"unknown scope":       {Revision: "t@1.0.0", Scope: "some"},
		"empty list":          {Revision: "t@1.0.0", Scope: rein.ScopeAllow, Allow: []string{}},
		"no list":             {Revision: "t@1.0.0", Scope: rein.ScopeAllow},
		"unregistered":        {Revision: "t@1.0.0", Scope: rein.ScopeAllow, Allow: []string{"rm"}},
		"twice":               {Revision: "t@1.0.0", Scope: rein.ScopeAllow, Allow: []string{"search", "search"}},
		"shell by itself":     {Revision: "t@1.0.0", Scope: rein.ScopeAllow, Allow: []string{"shell"}},
		"everything":          {Revision: "t@1.0.0", Scope: rein.ScopeUnrestricted},
		"needless acceptance": {Revision: "t@1.0.0", Scope: rein.ScopeDenyAll, AcceptCritical: true},
		"list beside deny":    {Revision: "t@1.0.0", Scope: rein.ScopeDenyAll, Allow: []string{"search"}},
		"no revision":         {Scope: rein.ScopeDenyAll},
	} {
		require.Error(t, tools.Validate(), name)
		for _, tool := range []string{"search", "shell", "rm", ""} {
			require.ErrorIs(t, tools.Permit(tool), rein.ErrToolDenied, name)
		}
	}
	some := rein.Tools{Revision: "t@1.0.0", Scope: rein.ScopeAllow, Allow: []string{"read_file"}}
	require.NoError(t, some.Permit("read_file"))
	require.ErrorIs(t, some.Permit("write_file"), rein.ErrToolDenied)
	all := rein.Tools{Revision: "t@1.0.0", Scope: rein.ScopeUnrestricted, AcceptCritical: true}
	require.NoError(t, all.Permit("shell"))
	require.ErrorIs(t, all.Permit("rm"), rein.ErrToolDenied, "unrestricted is every registered tool")
	require.ErrorIs(t, denyAll.Permit("read_file"), rein.ErrToolDenied)
	require.Error(t, spec("/bin/x").Compatible(some, noModel), "a command cannot enforce a list")
	require.NoError(t, spec("/bin/x").Compatible(denyAll, noModel))
	require.Error(t, rein.Model{Revision: "m@1.0.0"}.Validate())
}

func TestTheCommitMessageNamesTheRun(t *testing.T) {
	t.Parallel()
	require.Equal(t, "Change things\n\nFor run-1 of nightly.", spec("/bin/x").CommitMessage("run-1", "nightly"))
}
