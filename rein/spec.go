package rein

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rein-aharness/harness/rein/credential"
)

// Kind is the kind of a rein.
type Kind string

// KindCommand runs a pinned argv.
const KindCommand Kind = "command"

// Bounds of a spec.
const (
	maxArguments     = 64
	maxArgumentBytes = 4096
	maxVariables     = 64
	maxTimeout       = 4 * time.Hour
	maxMessageBytes  = 4096
	maxNameBytes     = 128
)

// Spec is the rein section of a profile. It holds no secret. (A29)
type Spec struct {
	// Revision is the rein's `name@1.2.3`.
	Revision string `json:"revision"`
	Kind     Kind   `json:"kind"`
	// Argv is the program, by its absolute path in the image, and its arguments. Nothing is added to it; the task is in the
	// file that the variable HARNESS_TASK_FILE names.
	Argv []string `json:"argv"`
	// Env are plain variables of the program. Secrets come by credential routes.
	Env map[string]string `json:"env,omitempty"`
	// TimeoutSeconds bounds the program's life, 1 to 4 hours.
	TimeoutSeconds int `json:"timeout_seconds"`
	// Author is the author of the commit.
	Author Author `json:"author"`
	// Message is the commit message. It may hold {run} and {definition}, and nothing else in braces of that form.
	Message string `json:"message"`
}

// Author is a commit's author.
type Author struct {
	Name  string `json:"name"`
	Email string `json:"email"`
}

var (
	placeholder  = regexp.MustCompile(`\{[a-z_]+\}`)
	emailForm    = regexp.MustCompile(`^[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+$`)
	placeholders = []string{"{run}", "{definition}"}
)

// Validate refuses a spec that is not whole, exact and bounded, and one that carries a secret in its argv or variables.
func (s Spec) Validate() error {
	if err := credential.CheckRevision(s.Revision); err != nil {
		return err
	}
	for _, check := range []func() error{s.checkKind, s.checkArgv, s.checkEnv, s.Author.validate, s.checkMessage} {
		if err := check(); err != nil {
			return fmt.Errorf("rein %s: %w", s.Revision, err)
		}
	}
	return nil
}

func (s Spec) checkKind() error {
	if s.Kind != KindCommand {
		return errors.New("kind is not command")
	}
	if s.TimeoutSeconds < 1 || s.TimeoutSeconds > int(maxTimeout/time.Second) {
		return fmt.Errorf("timeout_seconds is not between 1 and %d", int(maxTimeout/time.Second))
	}
	return nil
}

// ErrCarriesSecret says that a document holds a secret, or has a place for one, where only names belong. (A29)
var ErrCarriesSecret = errors.New("a secret does not belong here: declare a credential route")

func (s Spec) checkArgv() error {
	if len(s.Argv) == 0 || len(s.Argv) > maxArguments {
		return fmt.Errorf("argv needs 1 to %d items", maxArguments)
	}
	if !path.IsAbs(s.Argv[0]) || path.Clean(s.Argv[0]) != s.Argv[0] {
		return errors.New("argv[0] is not the clean absolute path of a program")
	}
	for i, argument := range s.Argv {
		if len(argument) > maxArgumentBytes || !printable(argument, "\n\t") {
			return fmt.Errorf("argv[%d] is too long or not plain text", i)
		}
		if credential.SecretValue(argument) || strings.HasPrefix(argument, "-") && namesSecret(argument) {
			return fmt.Errorf("argv[%d]: %w", i, ErrCarriesSecret)
		}
	}
	return nil
}

// namesSecret reports whether a flag is one that carries a secret, and not the name of a file that does.
func namesSecret(flag string) bool {
	name, _, _ := strings.Cut(flag, "=")
	return credential.SecretName(name) && !strings.HasSuffix(name, "-file") && !strings.HasSuffix(name, "_file")
}

func (s Spec) checkEnv() error {
	if len(s.Env) > maxVariables {
		return fmt.Errorf("env has more than %d variables", maxVariables)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		if err := credential.CheckVariable(name); err != nil {
			return fmt.Errorf("env: %w", err)
		}
		value := s.Env[name]
		if credential.SecretValue(value) || credential.SecretName(name) && !strings.HasSuffix(name, "_FILE") {
			return fmt.Errorf("env %s: %w", name, ErrCarriesSecret)
		}
		if len(value) > maxArgumentBytes || !printable(value, "\n\t") {
			return fmt.Errorf("env %s is too long or not plain text", name)
		}
	}
	return nil
}

// validate refuses what would add a header to the commit. (CASES 33)
func (a Author) validate() error {
	switch {
	case strings.TrimSpace(a.Name) == "" || len(a.Name) > maxNameBytes || !printable(a.Name, "") || strings.ContainsAny(a.Name, "<>"):
		return errors.New("author.name is empty, too long or not plain text on one line")
	case len(a.Email) > maxNameBytes || !emailForm.MatchString(a.Email):
		return errors.New("author.email is not a plain address")
	default:
		return nil
	}
}

func (s Spec) checkMessage() error {
	subject, _, _ := strings.Cut(s.Message, "\n")
	if strings.TrimSpace(subject) == "" || len(s.Message) > maxMessageBytes || !printable(s.Message, "\n") {
		return fmt.Errorf("message has no first line, is longer than %d bytes or not plain text", maxMessageBytes)
	}
	for _, name := range placeholder.FindAllString(s.Message, -1) {
		if !slices.Contains(placeholders, name) {
			return fmt.Errorf("message: there is no %s", name)
		}
	}
	if credential.SecretValue(s.Message) {
		return fmt.Errorf("message: %w", ErrCarriesSecret)
	}
	return nil
}

// CommitMessage is the message of a run's commit.
func (s Spec) CommitMessage(run, definition string) string {
	return strings.NewReplacer("{run}", run, "{definition}", definition).Replace(s.Message)
}

// printable reports whether text is UTF-8 of visible characters, spaces, and the given ones.
func printable(text, also string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool {
		return !unicode.IsPrint(r) && !strings.ContainsRune(also, r)
	})
}
