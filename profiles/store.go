package profiles

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/rein-aharness/harness/evidence"
)

// Store keeps profiles and what is known about them. Its tables are made by the queue's migrations. It is safe for concurrent
// use, and closing the pool is the caller's.
type Store struct {
	pool *pgxpool.Pool
}

// NewStore returns a store on the pool.
func NewStore(pool *pgxpool.Pool) *Store { return &Store{pool: pool} }

// Publish makes a revision known for good, and reports whether it was new. The same revision with the same content is no
// error; with other content it has the code profile_immutable. Publishing says nothing about readiness. (A6, A10)
func (s *Store) Publish(ctx context.Context, p *Profile, operator string) (ref Ref, created bool, err error) {
	if err := p.Validate(); err != nil {
		return Ref{}, false, err
	}
	if err := checkSaid("operator", operator); err != nil {
		return Ref{}, false, err
	}
	if ref, err = p.Ref(); err != nil {
		return Ref{}, false, fmt.Errorf("digest of profile %s: %w", p.Revision(), err)
	}
	content, err := p.Canonical()
	if err != nil {
		return Ref{}, false, fmt.Errorf("canonical form of profile %s: %w", p.Revision(), err)
	}
	tag, err := s.pool.Exec(ctx, `
		INSERT INTO profile_revision (name, version, digest, canonical, published_by) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (name, version) DO NOTHING`, ref.Name, ref.Version, ref.Digest, content, operator)
	if err != nil {
		return Ref{}, false, fmt.Errorf("publish profile %s: %w", ref.Revision(), err)
	}
	if tag.RowsAffected() == 1 {
		return ref, true, nil
	}
	published, err := s.row(ctx, ref)
	if err != nil {
		return Ref{}, false, err
	}
	if published.digest != ref.Digest {
		return Ref{}, false, evidence.Fail(evidence.StageEmit, evidence.CodeProfileImmutable, ref.Revision(), nil)
	}
	return ref, false, nil
}

// row is a revision as it is stored.
type row struct {
	digest    string
	canonical []byte
	at        time.Time
	by        string
}

var errNotPublished = errors.New("this revision is not published")

func (s *Store) row(ctx context.Context, ref Ref) (row, error) {
	var r row
	err := s.pool.QueryRow(ctx, `
		SELECT digest, canonical, published_at, published_by FROM profile_revision WHERE name = $1 AND version = $2`,
		ref.Name, ref.Version).Scan(&r.digest, &r.canonical, &r.at, &r.by)
	if errors.Is(err, pgx.ErrNoRows) {
		return row{}, evidence.Fail(evidence.StageResolve, evidence.CodeProfileUnknown, ref.Revision(), errNotPublished)
	}
	if err != nil {
		return row{}, fmt.Errorf("read profile %s: %w", ref.Revision(), err)
	}
	return r, nil
}

// Get returns the profile that the reference names, and its stored canonical bytes. An unpublished revision has the code
// profile_unknown. Another digest, or stored bytes that are not what the digest says, have profile_digest_mismatch, and
// content that this version of the harness does not understand has profile_incompatible. (A2, A8)
func (s *Store) Get(ctx context.Context, ref Ref) (*Profile, []byte, error) {
	stored, err := s.row(ctx, ref)
	if err != nil {
		return nil, nil, err
	}
	if stored.digest != ref.Digest {
		return nil, nil, evidence.Fail(evidence.StageResolve, evidence.CodeProfileDigestMismatch, ref.Revision(), nil)
	}
	p, err := parseStored(stored.canonical)
	if err != nil {
		return nil, nil, evidence.Fail(evidence.StageResolve, evidence.CodeProfileIncompatible, ref.Revision(), err)
	}
	actual, err := p.Ref()
	if err != nil || actual != ref {
		return nil, nil, evidence.Fail(evidence.StageResolve, evidence.CodeProfileDigestMismatch, ref.Revision(),
			errors.Join(errors.New("the stored content is not what its digest says"), err))
	}
	return p, stored.canonical, nil
}

// Content returns the stored bytes of a revision as they are, checked by nobody, for a verification to judge. An unpublished
// revision has the code profile_unknown.
func (s *Store) Content(ctx context.Context, revision string) ([]byte, error) {
	name, version, _ := strings.Cut(revision, "@")
	stored, err := s.row(ctx, Ref{Name: name, Version: version})
	if err != nil {
		return nil, err
	}
	return stored.canonical, nil
}

// Find returns the reference that a revision was published with, for an operator who knows name and version.
func (s *Store) Find(ctx context.Context, name, version string) (Ref, error) {
	ref := Ref{Name: name, Version: version}
	stored, err := s.row(ctx, ref)
	ref.Digest = stored.digest
	return ref, err
}

// Published is one line of List.
type Published struct {
	Ref         Ref
	PublishedAt time.Time
	PublishedBy string
	// Mark is the operators' last word; its verdict is empty when there was none.
	Mark Mark
	// Readiness are the records of all engines, by name of the engine.
	Readiness []Readiness
}

// List returns everything that is published, by name and then the newest first.
func (s *Store) List(ctx context.Context) ([]Published, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT r.name, r.version, r.digest, r.published_at, r.published_by,
		       coalesce(b.verdict, ''), coalesce(b.reason, ''), coalesce(b.operator, ''), coalesce(b.at, 'epoch')
		FROM profile_revision r
		LEFT JOIN LATERAL (
			SELECT verdict, reason, operator, at FROM profile_block WHERE digest = r.digest ORDER BY id DESC LIMIT 1) b ON true
		ORDER BY r.name, r.published_at DESC`)
	if err != nil {
		return nil, fmt.Errorf("list profiles: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Published, error) {
		var p Published
		err := row.Scan(&p.Ref.Name, &p.Ref.Version, &p.Ref.Digest, &p.PublishedAt, &p.PublishedBy,
			&p.Mark.Verdict, &p.Mark.Reason, &p.Mark.Operator, &p.Mark.At)
		return p, err
	})
	if err != nil {
		return nil, fmt.Errorf("list profiles: %w", err)
	}
	for i := range list {
		if list[i].Readiness, err = s.Readiness(ctx, list[i].Ref.Digest); err != nil {
			return nil, err
		}
	}
	return list, nil
}
