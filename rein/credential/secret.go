package credential

import (
	"fmt"
	"io"
	"log/slog"
	"sync"
)

// Redacted is what every Secret shows in place of its value.
const Redacted = "[redacted]"

// Secret holds a value that must not reach a log, an error, a table or a document. Whatever prints, formats or marshals
// it gets Redacted instead. The value is behind a function and not in a field, because reflection would print a field of
// a struct that embeds a Secret without asking its methods. The zero Secret is empty.
//
// Copies share the value; wiping one wipes all. (A28)
type Secret struct {
	access func(func(value *[]byte))
}

// NewSecret takes value over: the caller must not use the slice any more.
func NewSecret(value []byte) Secret {
	var mu sync.Mutex
	return Secret{access: func(use func(*[]byte)) {
		mu.Lock()
		defer mu.Unlock()
		use(&value)
	}}
}

// Reveal returns a copy of the value; nil when there is none, or none any more.
func (s Secret) Reveal() (revealed []byte) {
	if s.access == nil {
		return nil
	}
	s.access(func(value *[]byte) { revealed = append(revealed, *value...) })
	return revealed
}

// Empty reports whether there is no value, or none any more.
func (s Secret) Empty() bool {
	empty := true
	if s.access != nil {
		s.access(func(value *[]byte) { empty = len(*value) == 0 })
	}
	return empty
}

// Wipe overwrites the value, as far as this process's own copy of it goes: what the runtime, the kernel or a client
// library copied on the way is out of reach.
func (s Secret) Wipe() {
	if s.access == nil {
		return
	}
	s.access(func(value *[]byte) {
		clear(*value)
		*value = nil
	})
}

// String returns Redacted.
func (Secret) String() string { return Redacted }

// GoString returns Redacted.
func (Secret) GoString() string { return Redacted }

// Format writes Redacted, whatever the verb.
func (Secret) Format(state fmt.State, _ rune) { _, _ = io.WriteString(state, Redacted) }

// MarshalText returns Redacted; JSON, YAML and XML go through it.
func (Secret) MarshalText() ([]byte, error) { return []byte(Redacted), nil }

// LogValue returns Redacted.
func (Secret) LogValue() slog.Value { return slog.StringValue(Redacted) }
