package queue

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/internal/canonical"
	"github.com/rein-aharness/harness/profiles"
	"github.com/rein-aharness/harness/rein"
	"github.com/rein-aharness/harness/rein/credential"
	"github.com/rein-aharness/harness/repotx"
)

// Request is what a caller says, word for word. Nothing in it is looked up. (A2, A9, A12, A29)
type Request struct {
	// Version of this form: 1.
	Version int `json:"version"`
	// Definition names who wants this and why.
	Definition string `json:"definition"`
	// TriggerKey identifies the occasion. The same key never gives a second run. (A15)
	TriggerKey string `json:"trigger_key"`
	// OperationKey identifies the change across attempts; empty means the trigger key. (B30)
	OperationKey string `json:"operation_key"`
	// Repository is the URL of the remote, without a credential.
	Repository string `json:"repository"`
	// BaseRef is the branch that the change stands on, TargetRef the branch that takes it; they may be equal.
	BaseRef   string `json:"base_ref"`
	TargetRef string `json:"target_ref"`
	// Task is the bounded text that the rein is given. At most 64 KiB.
	Task string `json:"task"`
	// Profile is the exact reference name@version#sha256:….
	Profile string `json:"profile"`
	// Grant is what the definition allows to change.
	Grant repotx.Bounds `json:"grant"`
	// WaiveFencing accepts a remote without atomic updates. It stays visible in the evidence. (B35)
	WaiveFencing bool `json:"waive_fencing"`
	// Attended says that a person started this run and watches it; Operator is who. (A13)
	Attended bool   `json:"attended"`
	Operator string `json:"operator"`
	// Supersedes is the run whose attempt this one repeats. (A47)
	Supersedes string `json:"supersedes"`
	// Refs are attribution: keys from RefNames. They decide nothing. (A19)
	Refs map[string]string `json:"refs"`
	// Proof labels a bounded proof of an unverified profile; empty for any other run. (A5)
	Proof string `json:"proof"`
	// DeadlineSeconds is how long after its emission the run may still be started. 0 means a day; at most 30 days.
	DeadlineSeconds int `json:"deadline_seconds"`
	// Concurrency is how many runs may work on the repository while this one does, this one included. 0 means any number; at most
	// 1000.
	Concurrency int `json:"concurrency,omitzero"`
}

// Bounds of a request's fields.
const (
	maxTaskBytes       = 64 << 10
	maxKeyBytes        = 256
	maxNameBytes       = 128
	defaultDeadline    = 24 * time.Hour
	maxDeadlineSeconds = 30 * 24 * 3600
)

// RefNames lists the keys that Request.Refs may have.
func RefNames() []string {
	return []string{"change", "project", "requester", "team", "ticket"}
}

var (
	namePattern   = regexp.MustCompile(`^[a-z0-9][a-z0-9._/-]*$`)
	runIDPattern  = regexp.MustCompile(`^[0-9a-z][0-9a-z-]{7,63}$`)
	commitPattern = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)
)

// DecodeRequest reads a request from JSON and validates it. The failure's code is CodeContractInvalid, CodeValueInContract for a
// field that could carry a secret value, or that of the part that is wrong.
func DecodeRequest(data []byte) (Request, error) {
	return decodeRequest(data, canonical.DecodeJSON)
}

// DecodeRequestYAML is DecodeRequest for a YAML document.
func DecodeRequestYAML(data []byte) (Request, error) {
	return decodeRequest(data, canonical.DecodeYAML)
}

func decodeRequest(data []byte, decode func([]byte, any, canonical.Bounds) error) (Request, error) {
	var r Request
	if err := decode(data, &r, requestBounds()); err != nil {
		return Request{}, evidence.Fail(evidence.StageEmit, codeOfDecoding(err), "request", err)
	}
	if err := r.Validate(); err != nil {
		return Request{}, err
	}
	return r, nil
}

func requestBounds() canonical.Bounds {
	return canonical.Bounds{MaxBytes: 256 << 10, MaxDepth: 8, MaxValues: 4096, MaxString: maxTaskBytes}
}

// codeOfDecoding tells a field that could carry a secret from any other unknown field, so that the caller is told why.
func codeOfDecoding(err error) evidence.Code {
	var e *canonical.Error
	if errors.As(err, &e) && errors.Is(err, canonical.ErrUnknownField) {
		name := strings.ToLower(e.Pointer[strings.LastIndexByte(e.Pointer, '/')+1:])
		for _, secret := range []string{"value", "secret", "password", "passphrase", "token", "key", "credential"} {
			if strings.Contains(name, secret) {
				return evidence.CodeValueInContract
			}
		}
	}
	return evidence.CodeContractInvalid
}

// Validate checks the request by itself, with nothing looked up.
func (r Request) Validate() error {
	if err := r.checkSecrets(); err != nil {
		return err
	}
	if err := r.validateFields(); err != nil {
		var f *evidence.Failure
		if errors.As(err, &f) {
			return err
		}
		return evidence.Fail(evidence.StageEmit, evidence.CodeContractInvalid, "request", err)
	}
	return nil
}

// checkSecrets refuses text of the form of a well-known secret anywhere in the request: all of it is stored. The failure names the
// place. (A29)
func (r Request) checkSecrets() error {
	text, err := json.Marshal(r)
	if err != nil {
		return evidence.Fail(evidence.StageEmit, evidence.CodeContractInvalid, "request", err)
	}
	var tree map[string]any
	if err := json.Unmarshal(text, &tree); err != nil {
		return evidence.Fail(evidence.StageEmit, evidence.CodeContractInvalid, "request", err)
	}
	if place, found := credential.FindValue(tree); found {
		return evidence.Fail(evidence.StageEmit, evidence.CodeValueInContract, place, rein.ErrCarriesSecret)
	}
	return nil
}

func (r Request) validateFields() error {
	if r.Version != 1 {
		return fmt.Errorf("version: %d is not known; it is 1", r.Version)
	}
	if len(r.Definition) > maxNameBytes || !namePattern.MatchString(r.Definition) {
		return errors.New("definition: a name of lower-case letters, digits and ._/- is needed")
	}
	if r.TriggerKey == "" {
		return errors.New("trigger_key: is missing")
	}
	for _, f := range []struct {
		name, value string
		limit       int
	}{
		{"trigger_key", r.TriggerKey, maxKeyBytes},
		{"operation_key", r.OperationKey, maxKeyBytes},
		{"operator", r.Operator, maxNameBytes},
		{"proof", r.Proof, maxNameBytes},
	} {
		if err := checkLine(f.value, f.limit); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	if r.Task == "" || len(r.Task) > maxTaskBytes || !utf8.ValidString(r.Task) || strings.ContainsRune(r.Task, 0) {
		return fmt.Errorf("task: UTF-8 text of 1 to %d bytes is needed", maxTaskBytes)
	}
	if r.Attended != (r.Operator != "") {
		return errors.New("operator: an attended run names its operator, and no other run does")
	}
	if r.Supersedes != "" && !runIDPattern.MatchString(r.Supersedes) {
		return errors.New("supersedes: is not a run id")
	}
	for k, v := range r.Refs {
		if !slices.Contains(RefNames(), k) {
			return fmt.Errorf("refs: %q is not one of %v", k, RefNames())
		}
		if err := checkLine(v, maxKeyBytes); err != nil || v == "" {
			return fmt.Errorf("refs: %s: one line of 1 to %d bytes is needed", k, maxKeyBytes)
		}
	}
	if r.DeadlineSeconds < 0 || r.DeadlineSeconds > maxDeadlineSeconds {
		return fmt.Errorf("deadline_seconds: 0 to %d", maxDeadlineSeconds)
	}
	if r.Concurrency < 0 || r.Concurrency > maxConcurrency {
		return fmt.Errorf("concurrency: 0 to %d", maxConcurrency)
	}
	if _, err := profiles.ParseRef(r.Profile); err != nil {
		return err
	}
	repository, err := repotx.Canonical(r.Repository)
	if err != nil {
		return err
	}
	return r.grant(repository).Validate()
}

func (r Request) grant(repository repotx.Repository) repotx.Grant {
	return repotx.Grant{Repository: repository.ID, BaseRef: r.BaseRef, TargetRef: r.TargetRef, Bounds: r.Grant}
}

// checkLine accepts one line of printable UTF-8, or nothing.
func checkLine(s string, limit int) error {
	if len(s) > limit {
		return fmt.Errorf("is longer than %d bytes", limit)
	}
	if !utf8.ValidString(s) {
		return errors.New("is not UTF-8")
	}
	for _, c := range s {
		if c < ' ' || c >= 0x7f && c < 0xa0 || c == 0x2028 || c == 0x2029 {
			return errors.New("holds a control character")
		}
	}
	return nil
}

// Digest covers all of what the caller said.
func (r Request) Digest() (string, error) {
	return canonical.Digest(evidence.DomainRequest, r)
}

// operationDigest covers what the change is, and leaves out the occasion and the attempt: who started it, for which trigger,
// after which run. The operation key is bound to it.
func (r Request) operationDigest() (string, error) {
	r.TriggerKey, r.OperationKey, r.Supersedes, r.Operator = "", "", "", ""
	r.Attended = false
	r.Refs = nil
	r.DeadlineSeconds, r.Concurrency = 0, 0
	r.Proof = ""
	return canonical.Digest(domainOperation, r)
}

const domainOperation = "harness.operation.v1"

func (r Request) operationKey() string {
	if r.OperationKey != "" {
		return r.OperationKey
	}
	return r.TriggerKey
}

func (r Request) deadline() time.Duration {
	if r.DeadlineSeconds == 0 {
		return defaultDeadline
	}
	return time.Duration(r.DeadlineSeconds) * time.Second
}
