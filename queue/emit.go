package queue

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/internal/canonical"
)

// Emission is what Emit adds to a request.
type Emission struct {
	// Pin resolves the request to what it names exactly. It is called only for a trigger key that is new, and outside of any
	// transaction. Its error is Emit's.
	Pin func(ctx context.Context) (Pins, error)
	// Queue is the River queue of an attended run's own process; empty for any other run.
	Queue string
}

// Emit makes a run of a request, or finds the one that its trigger key already has; created says which. The run, its first fact
// and its first job are written in one transaction. (A9, A15)
//
// The same trigger key with another request is CodeTriggerConflict, an operation key that means another change
// CodeOperationConflict, a superseded run that permits no further attempt CodeSuccessorNotAllowed.
func (s *Store) Emit(ctx context.Context, r Request, e Emission) (run Run, created bool, err error) {
	if err := r.Validate(); err != nil {
		return Run{}, false, err
	}
	if r.Attended != (e.Queue != "") {
		return Run{}, false, evidence.Fail(evidence.StageEmit, evidence.CodeContractInvalid, "attended",
			errors.New("an attended run, and no other, has a queue of its own"))
	}
	digest, err := r.Digest()
	if err != nil {
		return Run{}, false, evidence.Fail(evidence.StageEmit, evidence.CodeContractInvalid, "request", err)
	}
	if run, err := s.emitted(ctx, r.TriggerKey, digest); !errors.Is(err, ErrNotFound) {
		return run, false, err
	}
	pins, err := e.Pin(ctx)
	if err != nil {
		return Run{}, false, err
	}
	contract, err := newContract(r, pins)
	if err != nil {
		return Run{}, false, err
	}
	err = s.transact(ctx, func(tx pgx.Tx) error {
		id, err := runID(ctx, tx, r.TriggerKey)
		if err != nil {
			return err
		}
		created, err = s.insertRun(ctx, tx, id, contract, e)
		return err
	})
	if err != nil {
		return Run{}, false, fmt.Errorf("emit: %w", err)
	}
	run, err = s.emitted(ctx, r.TriggerKey, digest)
	return run, created, err
}

// emitted finds the run of a trigger key.
func (s *Store) emitted(ctx context.Context, key, digest string) (Run, error) {
	run, err := s.oneRun(ctx, `WHERE trigger_key = $1`, key)
	if err != nil {
		return Run{}, err
	}
	if run.RequestDigest != digest {
		return Run{}, evidence.Fail(evidence.StageEmit, evidence.CodeTriggerConflict, key,
			fmt.Errorf("run %s has this trigger key and another request", run.ID))
	}
	return run, nil
}

// runID is the id of the run of a trigger key. It is derived, so that a run that is emitted anew in a database that was set back behind
// it is the same run, and meets its own fence at the remote: what it has published is not published again. The salt keeps the runs of
// two databases apart that work on one remote. (A51)
func runID(ctx context.Context, tx pgx.Tx, triggerKey string) (string, error) {
	var salt uuid.UUID
	if err := tx.QueryRow(ctx, `SELECT salt FROM control`).Scan(&salt); err != nil {
		return "", fmt.Errorf("make a run id: %w", err)
	}
	return uuid.NewHash(sha256.New(), salt, []byte(triggerKey), 8).String(), nil
}

func (s *Store) insertRun(ctx context.Context, tx pgx.Tx, id string, c Contract, e Emission) (bool, error) {
	r := c.Request
	document, err := canonical.Marshal(c)
	if err != nil {
		return false, evidence.Fail(evidence.StageEmit, evidence.CodeContractInvalid, "contract", err)
	}
	digest, err := canonical.DigestBytes(evidence.DomainContract, document)
	if err != nil {
		return false, err
	}
	if err := checkSuperseded(ctx, tx, r); err != nil {
		return false, err
	}
	if err := bindOperation(ctx, tx, r); err != nil {
		return false, err
	}
	queue := e.Queue
	if queue == "" {
		queue = queueRun
	}
	tag, err := tx.Exec(ctx, `
		INSERT INTO ops_run (id, definition, trigger_key, operation_key, request_digest, contract, contract_digest, repository,
			base_ref, target_ref, baseline, profile, profile_digest, proof, attended, operator, supersedes, queue, concurrency, deadline_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, nullif($17, ''), $18,
			$19, clock_timestamp() + $20 * interval '1 second')
		ON CONFLICT (trigger_key) DO NOTHING`,
		id, r.Definition, r.TriggerKey, r.operationKey(), c.RequestDigest, document, digest, c.Pins.Repository,
		r.BaseRef, r.TargetRef, c.Pins.Baseline, profileName(r.Profile), c.Pins.Profile, r.Proof, r.Attended, r.Operator, r.Supersedes,
		queue, r.Concurrency, int(r.deadline().Seconds()))
	if err != nil || tag.RowsAffected() == 0 {
		return false, err
	}
	if err := s.emitFact(ctx, tx, id, c, digest); err != nil {
		return false, err
	}
	return true, s.dispatch(ctx, tx, job{run: id, kind: kindRun, epoch: 1, queue: queue})
}

func (s *Store) emitFact(ctx context.Context, tx pgx.Tx, id string, c Contract, digest string) error {
	r := c.Request
	trigger, err := canonical.Digest(evidence.DomainTrigger, r.TriggerKey)
	if err != nil {
		return err
	}
	chain := evidence.NewChain(id)
	_, err = chain.Append(s.Now(), 0, evidence.StageEmit, evidence.SourceDeclared, evidence.Emitted{
		Definition: r.Definition, TriggerKeyDigest: trigger, OperationKey: r.operationKey(), RequestDigest: c.RequestDigest,
		ContractDigest: digest, Profile: profileName(r.Profile), ProfileDigest: c.Pins.Profile, Repository: c.Pins.Repository,
		BaseRef: r.BaseRef, TargetRef: r.TargetRef, Baseline: c.Pins.Baseline, Actor: evidence.ActorAgent,
		Attended: r.Attended, Operator: r.Operator, Supersedes: r.Supersedes, Proof: r.Proof != "", Refs: r.Refs,
	})
	if err != nil {
		return fmt.Errorf("record the emission: %w", err)
	}
	return storeFacts(ctx, tx, id, chain.Facts())
}

// bindOperation binds the operation key to the change it means, once and for ever. (B30)
func bindOperation(ctx context.Context, tx pgx.Tx, r Request) error {
	digest, err := r.operationDigest()
	if err != nil {
		return err
	}
	// The update that changes nothing makes a racing emission wait for the first and then see its row.
	var bound string
	err = tx.QueryRow(ctx, `
		INSERT INTO operation (key, digest) VALUES ($1, $2)
		ON CONFLICT (key) DO UPDATE SET key = excluded.key
		RETURNING digest`, r.operationKey(), digest).Scan(&bound)
	if err != nil {
		return err
	}
	if bound != digest {
		return evidence.Fail(evidence.StageEmit, evidence.CodeOperationConflict, r.operationKey(),
			errors.New("the operation key means another change"))
	}
	return nil
}

// checkSuperseded lets a further attempt begin only where the one before is final and has changed nothing, and only once. (A47)
func checkSuperseded(ctx context.Context, tx pgx.Tx, r Request) error {
	if r.Supersedes == "" {
		return nil
	}
	fail := func(format string, args ...any) error {
		return evidence.Fail(evidence.StageEmit, evidence.CodeSuccessorNotAllowed, r.Supersedes, fmt.Errorf(format, args...))
	}
	var final, successor bool
	var effect evidence.Effect
	var operation string
	err := tx.QueryRow(ctx, `
		SELECT o.finished_at IS NOT NULL, o.effect, o.operation_key,
			EXISTS (SELECT FROM ops_run n WHERE n.supersedes = o.id AND n.trigger_key <> $2)
		FROM ops_run o WHERE o.id = $1 FOR UPDATE`, r.Supersedes, r.TriggerKey).Scan(&final, &effect, &operation, &successor)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return fail("no such run")
	case err != nil:
		return err
	case !final:
		return fail("the run is not final")
	case effect != evidence.EffectNotDispatched && effect != evidence.EffectNotApplied:
		return fail("the run's effect is %s", effect)
	case operation != r.operationKey():
		return fail("the run has another operation key")
	case successor:
		return fail("the run has a successor already")
	}
	return nil
}

// profileName is the name@version of a reference.
func profileName(ref string) string {
	name, _, _ := strings.Cut(ref, "#")
	return name
}
