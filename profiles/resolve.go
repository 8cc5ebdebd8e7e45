package profiles

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rein-aharness/harness/evidence"
)

// Selection is what a run was pinned to, and who wants to run it where.
type Selection struct {
	Ref    Ref
	Pins   Pins
	Actor  evidence.Actor
	Engine string
	Run    string
	// Proof says that the run is a labelled proof, which alone may use a profile that is not ready. (A5)
	Proof bool
}

// Resolution is the constellation a run was pinned to, and nothing else.
type Resolution struct {
	Profile *Profile
	Ref     Ref
	Pins    Pins
	// Canonical are the profile's bytes as they were published.
	Canonical []byte
	State     State
	// Proof is the run's label. It is on every proof, also when the profile has become ready.
	Proof bool
}

// Resolve returns exactly what was pinned, or a terminal refusal: there is no other answer and no repair. Everything is
// checked before anything outside the database is touched, and reading changes nothing but the count of proofs; to resolve
// the same run again is no further proof. now decides whether a record has expired. (A2 to A5, A8, A11, A18)
//
// An error that is no *evidence.Failure means that the database did not answer; it decides nothing.
func (s *Store) Resolve(ctx context.Context, want Selection, now time.Time) (Resolution, error) {
	if !want.Actor.Valid() {
		return Resolution{}, refuse(evidence.CodeActorInvalid, string(want.Actor), nil)
	}
	if err := errors.Join(checkSaid("engine", want.Engine), checkSaid("run", want.Run)); err != nil {
		return Resolution{}, refuse(evidence.CodeProfileIncompatible, want.Ref.Revision(), err)
	}
	p, content, err := s.Get(ctx, want.Ref)
	if err != nil {
		return Resolution{}, err
	}
	pins, err := p.Pins()
	if err != nil {
		return Resolution{}, refuse(evidence.CodeProfileIncompatible, want.Ref.Revision(), err)
	}
	if name := pins.Differs(want.Pins); name != "" {
		return Resolution{}, refuse(evidence.CodePinMismatch, name, nil)
	}
	state, err := s.permit(ctx, want, p.Limits.ProofRuns, now)
	if err != nil {
		return Resolution{}, err
	}
	return Resolution{Profile: p, Ref: want.Ref, Pins: pins, Canonical: content, State: state, Proof: want.Proof}, nil
}

func refuse(code evidence.Code, subject string, err error) error {
	return evidence.Fail(evidence.StageResolve, code, subject, err)
}

// permit decides by the operators' last word, then by the engine's record.
func (s *Store) permit(ctx context.Context, want Selection, proofRuns int, now time.Time) (State, error) {
	state, reason, err := s.Standing(ctx, want.Engine, want.Ref.Digest, now)
	if err != nil {
		return "", err
	}
	if err := Refusal(want.Ref, state, reason, want.Proof); err != nil {
		return "", err
	}
	if state == StateReady {
		return state, nil
	}
	return state, s.countProof(ctx, want, proofRuns)
}

// Refusal is what a run of a profile with this standing is refused with; nil when nothing speaks against it. A proof may run
// unverified. (A5, A8)
func Refusal(ref Ref, state State, reason string, proof bool) error {
	subject, because := ref.Revision(), errors.New(reason)
	switch state {
	case StateReady:
		return nil
	case StateBlocked:
		return refuse(evidence.CodeProfileBlocked, subject, because)
	case StateDisabled:
		return refuse(evidence.CodeProfileDisabled, subject, because)
	case StateUnverified:
		if proof {
			return nil
		}
		return refuse(unverifiedCode(reason), subject, because)
	default:
		return refuse(evidence.CodeProfileIncompatible, subject, fmt.Errorf("unknown readiness %.32q", string(state)))
	}
}

// Reasons for being unverified without a check that said so.
const (
	reasonNeverChecked = "never checked on this engine"
	reasonExpired      = "its readiness on this engine has expired"
)

func unverifiedCode(reason string) evidence.Code {
	if reason == reasonExpired {
		return evidence.CodeProfileNotReady
	}
	return evidence.CodeProfileUnverified
}

// Standing is the state of a digest on one engine at a time, and why. An operator's block outranks the engine's record; a
// record counts until it expires; an engine without a record vouches for nothing. (A4, A6)
func (s *Store) Standing(ctx context.Context, engine, digest string, now time.Time) (State, string, error) {
	var verdict, said, found, reason *string
	var expires *time.Time
	err := s.pool.QueryRow(ctx, `
		SELECT b.verdict, b.reason, r.state, r.reason, r.expires_at
		FROM (SELECT 1) one
		LEFT JOIN LATERAL (SELECT verdict, reason FROM profile_block WHERE digest = $2 ORDER BY id DESC LIMIT 1) b ON true
		LEFT JOIN profile_readiness r ON r.engine = $1 AND r.digest = $2`, engine, digest).
		Scan(&verdict, &said, &found, &reason, &expires)
	if err != nil {
		return "", "", fmt.Errorf("read the standing of a profile: %w", err)
	}
	switch {
	case verdict != nil && *verdict != verdictEnabled:
		return State(*verdict), *said, nil
	case found == nil:
		return StateUnverified, reasonNeverChecked, nil
	case State(*found) == StateReady && !now.Before(*expires):
		return StateUnverified, reasonExpired, nil
	default: // a block that a check found holds until a check finds otherwise
		return State(*found), *reason, nil
	}
}

// countProof notes a proof and refuses the one that is too many. Proofs of one digest on one engine wait for each other. (A5)
func (s *Store) countProof(ctx context.Context, want Selection, most int) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('profile_proof ' || $1 || ' ' || $2, 0))`,
			want.Engine, want.Ref.Digest); err != nil {
			return fmt.Errorf("count proofs: %w", err)
		}
		if _, err := tx.Exec(ctx, `INSERT INTO profile_proof (engine, digest, run) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`,
			want.Engine, want.Ref.Digest, want.Run); err != nil {
			return fmt.Errorf("count proofs: %w", err)
		}
		var count int
		if err := tx.QueryRow(ctx, `SELECT count(*) FROM profile_proof WHERE engine = $1 AND digest = $2`,
			want.Engine, want.Ref.Digest).Scan(&count); err != nil {
			return fmt.Errorf("count proofs: %w", err)
		}
		if count > most {
			return refuse(evidence.CodeProfileUnverified, want.Ref.Revision(),
				fmt.Errorf("the profile allows %d proofs on one engine, and they are used up", most))
		}
		return nil
	})
}
