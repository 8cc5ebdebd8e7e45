package credential

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// MaxTTL bounds the lifetime of every token this package creates. The token role may bound it further.
const MaxTTL = 4 * time.Hour

// FileDir is where file injections lie in the sandbox: on a tmpfs of the session, beside the task.
const FileDir = "/run/harness"

// TaskFile is the name of the task's file in FileDir. No credential takes it.
const TaskFile = "task"

// InjectKind says how a released value reaches the session.
type InjectKind string

// The ways of injection.
const (
	InjectFile InjectKind = "file" // a file under FileDir, readable by the session's user alone
	InjectEnv  InjectKind = "env"  // a variable of the one process that the rein starts, never of the container
)

// Injection is where a released value goes: the name of a file in FileDir, or the name of a variable.
type Injection struct {
	Kind   InjectKind `json:"kind"`
	Target string     `json:"target"`
}

// Route is a named lane from one field of one Vault path into the session. It names things and holds no value. (A29, A31)
type Route struct {
	// Revision is the route's `name@1.2.3`. Evidence names it.
	Revision string `json:"revision"`
	// Path is the path as Vault's API has it, e.g. `secret/data/team/npm` for a kv version 2 mount `secret`.
	Path string `json:"path"`
	// Policy is the one Vault policy that lets a token read Path. The session's token gets this policy and no other.
	Policy string `json:"policy"`
	// Field is the name of the value in what Vault returns.
	Field string `json:"field"`
	// Inject says where the value goes.
	Inject Injection `json:"inject"`
	// TTLSeconds is how long the released credential may live, 1 to MaxTTL.
	TTLSeconds int `json:"ttl_seconds"`
}

// PublishKind is the form of a publish credential.
type PublishKind string

// The forms of a publish credential.
const (
	PublishBasic          PublishKind = "basic"           // user name and password over https
	PublishSSHKey         PublishKind = "ssh_key"         // a private key kept in Vault
	PublishSSHCertificate PublishKind = "ssh_certificate" // a key made for this run and signed by Vault's ssh engine
)

// PublishRoute is the lane of the credential that reads from and publishes to the git remote. It stays in the worker and
// hangs on a token of its own. What the remote is recognised by
// (a private CA, known hosts) is public, and the deployment's to add.
type PublishRoute struct {
	Revision string      `json:"revision"`
	Kind     PublishKind `json:"kind"`
	// Path is the kv path of the credential, or the signing path of the ssh engine, e.g. `ssh/sign/publish`.
	Path   string `json:"path"`
	Policy string `json:"policy"`
	// UsernameField and PasswordField name the fields of a basic credential.
	UsernameField string `json:"username_field,omitempty"`
	PasswordField string `json:"password_field,omitempty"`
	// KeyField names the field of an ssh_key's private key (OpenSSH or PEM, without a passphrase).
	KeyField string `json:"key_field,omitempty"`
	// User is the ssh user, and for a certificate its one principal; usually git.
	User string `json:"user,omitempty"`
	// TTLSeconds is how long the credential may live, 1 to MaxTTL.
	TTLSeconds int `json:"ttl_seconds"`
}

// SigningRoute is the lane of the key that signs evidence. It is the deployment's and no profile's.
type SigningRoute struct {
	Revision string `json:"revision"`
	Path     string `json:"path"`
	Policy   string `json:"policy"`
	// Field names the field that holds an Ed25519 private key, PKCS #8 in PEM.
	Field string `json:"field"`
	// TTLSeconds is how long the key may be held, 1 to MaxTTL.
	TTLSeconds int `json:"ttl_seconds"`
}

var (
	pathForm     = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+$`)
	policyForm   = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,127}$`)
	fieldForm    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,63}$`)
	fileForm     = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$`)
	variableForm = regexp.MustCompile(`^[A-Z_][A-Z0-9_]{0,63}$`)
	userForm     = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,31}$`)
)

// privileged are policies no session may hold.
var privileged = []string{"root", "default"}

// Validate refuses a route that is not whole, exact and bounded.
func (r Route) Validate() error {
	if err := CheckRevision(r.Revision); err != nil {
		return err
	}
	if err := checkSource(r.Path, r.Policy, r.TTLSeconds); err != nil {
		return fmt.Errorf("credential route %s: %w", r.Revision, err)
	}
	if !fieldForm.MatchString(r.Field) {
		return fmt.Errorf("credential route %s: field is not the name of a field", r.Revision)
	}
	if err := r.Inject.validate(); err != nil {
		return fmt.Errorf("credential route %s: %w", r.Revision, err)
	}
	return nil
}

func (i Injection) validate() error {
	switch i.Kind {
	case InjectFile:
		if !fileForm.MatchString(i.Target) || i.Target == TaskFile {
			return errors.New("inject.target is not a plain file name, or is the task's")
		}
	case InjectEnv:
		return CheckVariable(i.Target)
	default:
		return errors.New("inject.kind is neither file nor env")
	}
	return nil
}

// Place is the file's path in the sandbox, or the variable's name.
func (i Injection) Place() string {
	if i.Kind == InjectFile {
		return path.Join(FileDir, i.Target)
	}
	return i.Target
}

// reservedVariables change which program runs, or how, or belong to the sandbox.
var reservedVariables = []string{"PATH", "HOME", "USER", "SHELL", "TMPDIR", "PWD", "IFS", "ENV", "BASH_ENV"}

// CheckVariable refuses names of environment variables that are not plain, or that would change which program runs.
func CheckVariable(name string) error {
	switch {
	case !variableForm.MatchString(name):
		return fmt.Errorf("variable %.64q is not a plain upper-case name", name)
	case slices.Contains(reservedVariables, name), strings.HasPrefix(name, "LD_"), strings.HasPrefix(name, "HARNESS_"):
		return fmt.Errorf("variable %s is reserved", name)
	default:
		return nil
	}
}

// Validate refuses a route that is not whole, exact and bounded, or that has fields of another kind.
func (r PublishRoute) Validate() error {
	if err := CheckRevision(r.Revision); err != nil {
		return err
	}
	if err := checkSource(r.Path, r.Policy, r.TTLSeconds); err != nil {
		return fmt.Errorf("publish route %s: %w", r.Revision, err)
	}
	if err := r.validateKind(); err != nil {
		return fmt.Errorf("publish route %s: %w", r.Revision, err)
	}
	return nil
}

func (r PublishRoute) validateKind() error {
	basic := r.UsernameField != "" || r.PasswordField != ""
	switch r.Kind {
	case PublishBasic:
		if r.KeyField != "" || r.User != "" {
			return errors.New("key_field and user belong to ssh kinds")
		}
		if !fieldForm.MatchString(r.UsernameField) || !fieldForm.MatchString(r.PasswordField) {
			return errors.New("username_field or password_field is not the name of a field")
		}
	case PublishSSHKey:
		if basic {
			return errors.New("username_field and password_field belong to the kind basic")
		}
		if !fieldForm.MatchString(r.KeyField) || !userForm.MatchString(r.User) {
			return errors.New("key_field or user is not a plain name")
		}
	case PublishSSHCertificate:
		if basic || r.KeyField != "" {
			return errors.New("a certificate has no field names: its key is made in the worker")
		}
		if !userForm.MatchString(r.User) {
			return errors.New("user is not a plain name")
		}
	default:
		return errors.New("kind is none of basic, ssh_key, ssh_certificate")
	}
	return nil
}

// Validate refuses a route that is not whole, exact and bounded.
func (r SigningRoute) Validate() error {
	if err := CheckRevision(r.Revision); err != nil {
		return err
	}
	if err := checkSource(r.Path, r.Policy, r.TTLSeconds); err != nil {
		return fmt.Errorf("signing route %s: %w", r.Revision, err)
	}
	if !fieldForm.MatchString(r.Field) {
		return fmt.Errorf("signing route %s: field is not the name of a field", r.Revision)
	}
	return nil
}

func checkSource(vaultPath, policy string, ttlSeconds int) error {
	switch {
	case len(vaultPath) > 256 || !pathForm.MatchString(vaultPath):
		return errors.New("path is not a plain Vault path")
	case strings.HasPrefix(vaultPath, "sys/") || strings.HasPrefix(vaultPath, "auth/") ||
		strings.HasPrefix(vaultPath, "identity/") || strings.HasPrefix(vaultPath, "cubbyhole/"):
		return errors.New("path is Vault's own administration and not a secret")
	case !policyForm.MatchString(policy) || slices.Contains(privileged, policy):
		return errors.New("policy is not the name of a plain policy")
	case ttlSeconds < 1 || ttlSeconds > int(MaxTTL/time.Second):
		return fmt.Errorf("ttl_seconds is not between 1 and %d", int(MaxTTL/time.Second))
	default:
		return nil
	}
}
