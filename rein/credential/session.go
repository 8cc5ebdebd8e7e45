package credential

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/internal/secretform"
)

// maxValue bounds a released value, in bytes.
const maxValue = 32 << 10

// Session is one child token and what was read with it. It is safe for concurrent use.
type Session struct {
	client         *Client
	holder         Holder
	accessor       string
	accessorDigest string
	token          Secret
	ledger         Ledger
	policies       []string
	ttl            time.Duration

	mu   sync.Mutex
	held []Secret
	uses []evidence.CredentialUse
}

// Material is one value released to a session, and where it goes.
type Material struct {
	Route  string // the route's revision
	Inject Injection
	Value  Secret
}

// Outcomes of a use, as evidence names them.
const (
	outcomeReleased = "released"
	outcomeRefused  = "refused"
	outcomeFailed   = "failed"
)

// Format names holder and purpose and nothing else, whatever the verb: no formatting walks the fields.
func (s *Session) Format(state fmt.State, _ rune) {
	_, _ = fmt.Fprintf(state, "%s token of run %s, epoch %d", s.holder.Purpose, s.holder.Run, s.holder.Epoch)
}

// Accessor names the session's token without giving access to anything.
func (s *Session) Accessor() string { return s.accessor }

// Read releases the value of a route. A route whose policy the session was not begun with, or whose credential may not live
// as long as the session's token, is refused before Vault is asked, with the code credential_undeclared; whatever else goes
// wrong has the code credential_failed. (A31)
func (s *Session) Read(ctx context.Context, route Route) (Material, error) {
	if err := s.declared(route.Validate(), route.Policy, route.TTLSeconds); err != nil {
		return Material{}, s.record(route.Revision, string(route.Inject.Kind), outcomeRefused, evidence.CodeCredentialUndeclared, err)
	}
	value, err := s.readField(ctx, route)
	if err != nil {
		return Material{}, s.record(route.Revision, string(route.Inject.Kind), outcomeFailed, evidence.CodeCredentialFailed, err)
	}
	return Material{Route: route.Revision, Inject: route.Inject, Value: value},
		s.record(route.Revision, string(route.Inject.Kind), outcomeReleased, "", nil)
}

func (s *Session) readField(ctx context.Context, route Route) (Secret, error) {
	fields, err := s.readFields(ctx, route.Path)
	if err != nil {
		return Secret{}, err
	}
	value, err := s.field(fields, route.Field)
	if err != nil {
		return Secret{}, err
	}
	// Any shorter, and the log would be masked, and the change refused, by chance.
	if len(bytes.TrimSpace(value.Reveal())) < secretform.MinLength {
		return Secret{}, fmt.Errorf("the value is shorter than %d bytes", secretform.MinLength)
	}
	if route.Inject.Kind == InjectEnv && bytes.IndexByte(value.Reveal(), 0) >= 0 {
		return Secret{}, errors.New("the value holds a zero byte and cannot be a variable")
	}
	return value, nil
}

// declared refuses what the session was not begun for.
func (s *Session) declared(invalid error, policy string, ttlSeconds int) error {
	switch {
	case invalid != nil:
		return invalid
	case !slices.Contains(s.policies, policy):
		return errors.New("the session was not begun with the route's policy")
	case s.ttl > time.Duration(ttlSeconds)*time.Second:
		return errors.New("the session's token outlives what the route allows")
	default:
		return nil
	}
}

// record notes a use for the evidence and returns err as the failure it is, or nil.
func (s *Session) record(route, kind, outcome string, code evidence.Code, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uses = append(s.uses, evidence.CredentialUse{
		Route: route, TargetKind: kind, LifetimeSeconds: int64(s.ttl / time.Second),
		AccessorDigest: s.accessorDigest, Outcome: outcome,
	})
	if err == nil {
		return nil
	}
	return evidence.Fail(s.holder.Purpose.stage(), code, route, err)
}

// Evidence is what was released, refused and failed so far, without a value. (A28)
func (s *Session) Evidence() []evidence.CredentialUse {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.uses)
}

// readFields reads a path with the session's token alone. A kv version 2 answer is unpacked.
func (s *Session) readFields(ctx context.Context, path string) (map[string]any, error) {
	vault, err := s.client.as(s.token, 2)
	if err != nil {
		return nil, err
	}
	answer, err := vault.Logical().ReadWithContext(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if answer == nil || answer.Data == nil {
		return nil, fmt.Errorf("read %s: there is nothing", path)
	}
	metadata, versioned := answer.Data["metadata"].(map[string]any)
	if !versioned || metadata["version"] == nil {
		return answer.Data, nil
	}
	fields, ok := answer.Data["data"].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("read %s: its newest version is deleted", path)
	}
	return fields, nil
}

// field takes one value out of what was read, and holds it to be wiped.
func (s *Session) field(fields map[string]any, name string) (Secret, error) {
	text, ok := fields[name].(string)
	if !ok || text == "" {
		return Secret{}, fmt.Errorf("there is no text in the field %s", name)
	}
	if len(text) > maxValue {
		return Secret{}, fmt.Errorf("the field %s is longer than %d bytes", name, maxValue)
	}
	value := NewSecret([]byte(text))
	s.hold(value)
	return value, nil
}

func (s *Session) hold(value Secret) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = append(s.held, value)
}

// Values returns copies of the values released so far, for masking and for looking for them in a change.
func (s *Session) Values() [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	var values [][]byte
	for _, held := range s.held {
		if value := held.Reveal(); len(value) > 0 {
			values = append(values, value)
		}
	}
	return values
}

// Revoke ends the token and with it everything that was read with it, and returns nil only when Vault has said that the
// accessor is unknown and the ledger has it written down. It may be called again. The failure's code is revocation_failed.
// The caller gives a context that a cancelled run does not end. The released values stay readable until Wipe, because the
// change that is captured is still searched for them. (A30)
func (s *Session) Revoke(ctx context.Context) error {
	s.token.Wipe()
	err := s.client.RevokeAccessor(ctx, s.accessor)
	if err == nil {
		err = s.ledger.TokenRevoked(ctx, s.accessor)
	}
	if err != nil {
		return evidence.Fail(evidence.StageTeardown, evidence.CodeRevocationFailed, string(s.holder.Purpose), err)
	}
	return nil
}

// Wipe overwrites the token and every value released.
func (s *Session) Wipe() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token.Wipe()
	for _, held := range s.held {
		held.Wipe()
	}
}
