package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/internal/canonical"
)

// Applied is a definition as it stands in the database.
type Applied struct {
	Name      string
	Revision  int
	Digest    string // of the revision's document
	AppliedBy string // whoever applied the revision
	AppliedAt time.Time
	Document  []byte // canonical
	// DecidedTo is the time up to which every due time is recorded or missed. NextDue is the first one after it; nil when there
	// is none.
	DecidedTo time.Time
	NextDue   *time.Time

	Paused       bool
	PausedBy     string
	PausedReason string
	PausedAt     *time.Time

	// Waiting is how many ticks are still to be emitted.
	Waiting int
}

// Definition decodes the document.
func (a Applied) Definition() (Definition, error) {
	return decodeDefinition(a.Name, a.Document)
}

func decodeDefinition(name string, document []byte) (Definition, error) {
	var d Definition
	if err := canonical.DecodeJSON(document, &d, requestBounds()); err != nil {
		return Definition{}, fmt.Errorf("definition %s: %w", name, err)
	}
	return d, nil
}

const appliedColumns = `d.name, d.revision, r.digest, r.applied_by, r.applied_at, r.document, d.decided_to, d.next_due,
	d.paused, d.paused_by, d.paused_reason, d.paused_at,
	(SELECT count(*)::int FROM definition_tick t WHERE t.definition = d.name AND t.state = 'pending')`

const appliedTables = ` FROM definition d JOIN definition_revision r ON r.definition = d.name AND r.number = d.revision `

// Definitions lists the applied definitions by name.
func (s *Store) Definitions(ctx context.Context) ([]Applied, error) {
	return s.applied(ctx, `ORDER BY d.name`)
}

// Definition gives one applied definition. ErrNoDefinition when there is none of the name.
func (s *Store) Definition(ctx context.Context, name string) (Applied, error) {
	found, err := s.applied(ctx, `WHERE d.name = $1`, name)
	if err != nil {
		return Applied{}, err
	}
	if len(found) == 0 {
		return Applied{}, fmt.Errorf("definition %s: %w", name, ErrNoDefinition)
	}
	return found[0], nil
}

func (s *Store) applied(ctx context.Context, tail string, args ...any) ([]Applied, error) {
	rows, err := s.pool.Query(ctx, `SELECT `+appliedColumns+appliedTables+tail, args...)
	if err != nil {
		return nil, fmt.Errorf("read definitions: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Applied])
	if err != nil {
		return nil, fmt.Errorf("read definitions: %w", err)
	}
	return found, nil
}

const domainDefinition = "harness.definition.v1"

// Apply makes definitions current, all of them or none: each that differs from what stands under its name becomes the next revision
// of that name. changed gives the names of those. What the schedule of the revision before had due is recorded first, and a changed
// schedule counts from now. A definition that could not be emitted is refused with the code that its emission would be.
func (s *Store) Apply(ctx context.Context, by string, definitions ...Definition) (changed []string, err error) {
	if by = evidence.Clean(by, maxNameBytes); by == "" {
		return nil, errors.New("apply definitions: whoever applies them is named")
	}
	for _, d := range definitions {
		if err := s.validateDefinition(d); err != nil {
			return nil, fmt.Errorf("definition %s: %w", d.Name, err)
		}
	}
	err = s.transact(ctx, func(tx pgx.Tx) error {
		changed = nil
		for _, d := range definitions {
			differs, err := s.apply(ctx, tx, by, d)
			if err != nil {
				return fmt.Errorf("apply definition %s: %w", d.Name, err)
			}
			if differs {
				changed = append(changed, d.Name)
			}
		}
		return nil
	})
	return changed, err
}

func (s *Store) validateDefinition(d Definition) error {
	if err := d.Request(Occasion{TriggerKey: triggerKey(d.Name, s.Now(), maxAttempts)}).Validate(); err != nil {
		return err
	}
	if err := d.validatePlan(); err != nil {
		return definitionError(err)
	}
	if d.Schedule == nil {
		return nil
	}
	plan, err := d.Schedule.Parse()
	if err != nil {
		return definitionError(err)
	}
	if i := plan.Interval(); i != 0 && i < s.config.MinInterval {
		return definitionError(fmt.Errorf("schedule: every: %s at least", s.config.MinInterval))
	}
	return nil
}

func (s *Store) apply(ctx context.Context, tx pgx.Tx, by string, d Definition) (bool, error) {
	document, err := canonical.Marshal(d)
	if err != nil {
		return false, definitionError(err)
	}
	digest, err := canonical.DigestBytes(domainDefinition, document)
	if err != nil {
		return false, err
	}
	// One after the other under each name, also where the name is new.
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1, hashtext($2))`, definitionLock, d.Name); err != nil {
		return false, err
	}
	rows, err := tx.Query(ctx, `SELECT `+dueColumns+appliedTables+`WHERE d.name = $1 FOR UPDATE OF d`, d.Name)
	if err != nil {
		return false, err
	}
	before, err := pgx.CollectRows(rows, pgx.RowToStructByPos[standing])
	if err != nil {
		return false, err
	}
	if len(before) == 1 {
		if before[0].Digest == digest {
			return false, nil
		}
		return true, s.revise(ctx, tx, by, before[0], d, document, digest)
	}
	if err := addRevision(ctx, tx, d.Name, 1, document, digest, by); err != nil {
		return false, err
	}
	now := time.Time{}
	if err := tx.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&now); err != nil {
		return false, err
	}
	next, err := d.next(now)
	if err != nil {
		return false, err
	}
	_, err = tx.Exec(ctx, `INSERT INTO definition (name, revision, decided_to, next_due) VALUES ($1, 1, $2, $3)`, d.Name, now, next)
	return true, err
}

// definitionLock is the first half of the advisory lock under which one name is applied at a time; the name is the other.
const definitionLock = 0x64656669

// revise puts another document in the place of the one that stands.
func (s *Store) revise(ctx context.Context, tx pgx.Tx, by string, old standing, d Definition, document []byte, digest string) error {
	if err := addRevision(ctx, tx, d.Name, old.Revision+1, document, digest, by); err != nil {
		return err
	}
	before, err := decodeDefinition(old.Name, old.Document)
	if err != nil {
		return err
	}
	if same(before.Schedule, d.Schedule) {
		_, err := tx.Exec(ctx, `UPDATE definition SET revision = $2 WHERE name = $1`, d.Name, old.Revision+1)
		return err
	}
	if !old.Paused {
		if err := decide(ctx, tx, old); err != nil {
			return err
		}
	}
	since := later(old.DecidedTo, old.Now)
	next, err := d.next(since)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `UPDATE definition SET revision = $2, decided_to = $3, next_due = $4 WHERE name = $1`,
		d.Name, old.Revision+1, since, next)
	return err
}

func same[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}

// next is the definition's first due time after a time; nil when there is none.
func (d Definition) next(after time.Time) (*time.Time, error) {
	if d.Schedule == nil {
		return nil, nil
	}
	plan, err := d.Schedule.Parse()
	if err != nil {
		return nil, fmt.Errorf("definition %s: schedule: %w", d.Name, err)
	}
	if t := plan.Next(after); !t.IsZero() {
		return &t, nil
	}
	return nil, nil
}

func addRevision(ctx context.Context, tx pgx.Tx, name string, number int, document []byte, digest, by string) error {
	_, err := tx.Exec(ctx, `INSERT INTO definition_revision (definition, number, document, digest, applied_by) VALUES ($1, $2, $3, $4, $5)`,
		name, number, document, digest, by)
	return err
}

// PauseDefinition lets nothing more be emitted of the definition by its schedule until it is resumed. (A47)
func (s *Store) PauseDefinition(ctx context.Context, name, by, reason string) error {
	return s.switchDefinition(ctx, name, `paused = true, paused_by = $2, paused_reason = $3, paused_at = clock_timestamp()`,
		evidence.Clean(by, maxNameBytes), evidence.Clean(reason, maxKeyBytes))
}

// ResumeDefinition lets the schedule go on. What became due meanwhile was missed, and the definition's policy says what still counts.
func (s *Store) ResumeDefinition(ctx context.Context, name string) error {
	return s.switchDefinition(ctx, name, `paused = false, paused_by = '', paused_reason = '', paused_at = NULL`)
}

func (s *Store) switchDefinition(ctx context.Context, name, set string, args ...any) error {
	tag, err := s.pool.Exec(ctx, `UPDATE definition SET `+set+` WHERE name = $1`, append([]any{name}, args...)...)
	if err != nil {
		return fmt.Errorf("definition %s: %w", name, err)
	}
	if tag.RowsAffected() == 0 {
		return fmt.Errorf("definition %s: %w", name, ErrNoDefinition)
	}
	return nil
}
