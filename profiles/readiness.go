package profiles

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/jackc/pgx/v5"

	"github.com/rein-aharness/harness/internal/canonical"
)

// State is how far a profile can be used on one engine.
type State string

// The states of readiness.
const (
	StateReady      State = "ready"
	StateUnverified State = "unverified" // not checked, not wholly, or not lately
	StateBlocked    State = "blocked"
	StateDisabled   State = "disabled"
)

// MaxReadiness bounds how long a check may vouch for a profile.
const MaxReadiness = 7 * 24 * time.Hour

// Link is one link of the chain that a readiness check looked at.
type Link struct {
	Name   string `json:"name"` // queue, image, runtime, isolation, vault route …
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

// Readiness is what one engine's check found for one digest. (A7)
type Readiness struct {
	Engine    string    `json:"engine"`
	Digest    string    `json:"digest"`
	State     State     `json:"state"` // ready, unverified or blocked
	Reason    string    `json:"reason"`
	CheckedAt time.Time `json:"checked_at"`
	ExpiresAt time.Time `json:"expires_at"`
	Links     []Link    `json:"links"`
}

const (
	maxLinks     = 64
	maxSaidBytes = 1024
	maxNameBytes = 128
)

func (r Readiness) validate() error {
	if err := errors.Join(checkSaid("engine", r.Engine), checkSaid("reason", r.Reason)); err != nil {
		return err
	}
	switch {
	case !canonical.ValidDigest(r.Digest):
		return errors.New("readiness: the digest is none")
	case len(r.Engine) > maxNameBytes:
		return errors.New("readiness: the engine's name is too long")
	case r.State != StateReady && r.State != StateUnverified && r.State != StateBlocked:
		return fmt.Errorf("readiness: a check cannot find the state %.32q", string(r.State))
	case !r.ExpiresAt.After(r.CheckedAt) || r.ExpiresAt.Sub(r.CheckedAt) > MaxReadiness:
		return fmt.Errorf("readiness: it must end, within %s of the check", MaxReadiness)
	case len(r.Links) > maxLinks || r.State == StateReady && len(r.Links) == 0:
		return fmt.Errorf("readiness: there must be 1 to %d links", maxLinks)
	}
	for _, link := range r.Links {
		if r.State == StateReady && !link.OK {
			return fmt.Errorf("readiness: ready although the link %.64q is not", link.Name)
		}
	}
	return nil
}

// SetReadiness records what a check found, in place of what it found before. Ready needs at least one link, every link to
// hold, and an end. (A6, A7)
func (s *Store) SetReadiness(ctx context.Context, r Readiness) error {
	if err := r.validate(); err != nil {
		return err
	}
	links, err := json.Marshal(append([]Link{}, r.Links...))
	if err != nil {
		return fmt.Errorf("encode links: %w", err)
	}
	_, err = s.pool.Exec(ctx, `
		INSERT INTO profile_readiness (engine, digest, state, reason, checked_at, expires_at, links)
		VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (engine, digest) DO UPDATE SET state = excluded.state, reason = excluded.reason,
			checked_at = excluded.checked_at, expires_at = excluded.expires_at, links = excluded.links
		WHERE profile_readiness.checked_at <= excluded.checked_at`,
		r.Engine, r.Digest, r.State, r.Reason, r.CheckedAt, r.ExpiresAt, links)
	if err != nil {
		return fmt.Errorf("record readiness: %w", err)
	}
	return nil
}

// Readiness returns the records of all engines for a digest, by name of the engine.
func (s *Store) Readiness(ctx context.Context, digest string) ([]Readiness, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT engine, digest, state, reason, checked_at, expires_at, links FROM profile_readiness
		WHERE digest = $1 ORDER BY engine`, digest)
	if err != nil {
		return nil, fmt.Errorf("read readiness: %w", err)
	}
	records, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Readiness, error) {
		var r Readiness
		var links []byte
		if err := row.Scan(&r.Engine, &r.Digest, &r.State, &r.Reason, &r.CheckedAt, &r.ExpiresAt, &links); err != nil {
			return Readiness{}, err
		}
		return r, json.Unmarshal(links, &r.Links)
	})
	if err != nil {
		return nil, fmt.Errorf("read readiness: %w", err)
	}
	return records, nil
}

// Mark is an operator's word on a digest. (A4)
type Mark struct {
	Verdict  string // blocked, disabled or enabled
	Reason   string
	Operator string
	At       time.Time
}

const verdictEnabled = "enabled"

// Block refuses every run with the digest, on every engine, until Enable.
func (s *Store) Block(ctx context.Context, digest, reason, operator string) error {
	return s.mark(ctx, digest, string(StateBlocked), reason, operator)
}

// Disable is Block for a profile that is no longer meant to be used, rather than one that is unsafe.
func (s *Store) Disable(ctx context.Context, digest, reason, operator string) error {
	return s.mark(ctx, digest, string(StateDisabled), reason, operator)
}

// Enable takes a block back. It makes nothing ready: the engines' records hold again as they are.
func (s *Store) Enable(ctx context.Context, digest, reason, operator string) error {
	return s.mark(ctx, digest, verdictEnabled, reason, operator)
}

// mark adds an operator's word; what was said before stays on record.
func (s *Store) mark(ctx context.Context, digest, verdict, reason, operator string) error {
	if err := errors.Join(checkSaid("reason", reason), checkSaid("operator", operator)); err != nil {
		return err
	}
	_, err := s.pool.Exec(ctx, `INSERT INTO profile_block (digest, verdict, reason, operator) VALUES ($1, $2, $3, $4)`,
		digest, verdict, reason, operator)
	if err != nil {
		return fmt.Errorf("mark the profile %s: %w", verdict, err)
	}
	return nil
}

// Marks returns everything that operators said about a digest, the last word first.
func (s *Store) Marks(ctx context.Context, digest string) ([]Mark, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT verdict, reason, operator, at FROM profile_block WHERE digest = $1 ORDER BY id DESC LIMIT 1000`, digest)
	if err != nil {
		return nil, fmt.Errorf("read marks: %w", err)
	}
	marks, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Mark])
	if err != nil {
		return nil, fmt.Errorf("read marks: %w", err)
	}
	return marks, nil
}

// checkSaid refuses words of an operator or a check that say nothing or cannot be shown.
func checkSaid(what, text string) error {
	hidden := strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
	if strings.TrimSpace(text) == "" || len(text) > maxSaidBytes || hidden {
		return fmt.Errorf("%s is missing, longer than %d bytes or not plain text on one line", what, maxSaidBytes)
	}
	return nil
}
