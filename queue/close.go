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

// Closing is how a run ends.
type Closing struct {
	State       evidence.State // completed, failed, cancelled or expired
	Effect      evidence.Effect
	Stage       evidence.Stage // where a run that did not complete ended; StageClose for one that did
	Code        evidence.Code  // empty for a run that completed
	Subject     string         // of the failure
	Disposition evidence.Outcome
	// Fence is the value that the run's fence ref was left with; empty when there is none.
	Fence string
	// Sign makes the signed statement over all facts, the closing one included.
	Sign func(facts []evidence.Fact) ([]byte, error)
}

// Result is the envelope in which a run's end is told. It has nothing but these fields. (A42)
type Result struct {
	Version        int              `json:"version"` // 1
	Run            string           `json:"run"`
	Definition     string           `json:"definition"`
	OperationKey   string           `json:"operation_key"`
	ContractDigest string           `json:"contract_digest"`
	Profile        string           `json:"profile"`
	ProfileDigest  string           `json:"profile_digest"`
	Proof          string           `json:"proof"`
	Attended       bool             `json:"attended"`
	Epoch          int64            `json:"epoch"`
	State          evidence.State   `json:"state"`
	Effect         evidence.Effect  `json:"effect"`
	Stage          evidence.Stage   `json:"stage"`
	Code           evidence.Code    `json:"code"`
	Subject        string           `json:"subject"` // cleaned and bounded
	Disposition    evidence.Outcome `json:"disposition"`
	Repository     string           `json:"repository"`
	TargetRef      string           `json:"target_ref"`
	Baseline       string           `json:"baseline"`
	Transaction    string           `json:"transaction"` // empty when none was intended, as are the next four
	Commit         string           `json:"commit"`
	ChangedCount   int              `json:"changed_count"`
	Insertions     int64            `json:"insertions"`
	Deletions      int64            `json:"deletions"`
	EvidenceHead   string           `json:"evidence_head"` // digest of the last fact
	EvidenceCount  int              `json:"evidence_count"`
	ClosedAt       string           `json:"closed_at"`
}

// Bounds of what a close stores.
const (
	maxSubjectBytes   = 256
	maxStatementBytes = 4 << 20
)

// DecodeResult reads a stored or delivered result. (A42)
func DecodeResult(data []byte) (Result, error) {
	var r Result
	if err := canonical.DecodeJSON(data, &r, canonical.Bounds{MaxBytes: 64 << 10, MaxDepth: 4}); err != nil {
		return Result{}, fmt.Errorf("result: %w", err)
	}
	if r.Version != 1 {
		return Result{}, fmt.Errorf("result: version %d is not known", r.Version)
	}
	return r, nil
}

// Close ends the run: final state, closing fact, result, signed statement, release of the repository ref, what is due of the fence,
// and the deliveries, all in one transaction or not at all. The evidence decides whether the state and effect may be closed with;
// when it refuses, nothing was written and another Close may follow. After a lost answer the same Close finds its own work.
func (l *Lease) Close(ctx context.Context, c Closing) error {
	end, err := l.prepareClose(c)
	if err != nil {
		return err
	}
	err = l.write(ctx, "close", func(tx pgx.Tx, _ holding) error { return l.close(ctx, tx, c, end) })
	if errors.Is(err, ErrLeaseLost) {
		err = l.closedAlready(ctx, c, err)
	}
	l.finish(err)
	return err
}

// ending is what a close writes.
type ending struct {
	facts     []evidence.Fact
	result    []byte
	records   map[Record][]byte
	digest    string
	statement []byte
}

func (l *Lease) prepareClose(c Closing) (ending, error) {
	if c.Code == "" != (c.State == evidence.StateCompleted) {
		return ending{}, fmt.Errorf("close run %s: a run completes without a code and ends otherwise with one", l.run.ID)
	}
	// On a copy, so that a refused close leaves the chain open.
	chain, err := evidence.Resume(l.chain.Facts())
	if err != nil {
		return ending{}, fmt.Errorf("close run %s: %w", l.run.ID, err)
	}
	now := l.store.Now()
	_, err = chain.Append(now, l.run.Epoch, l.kind.closeStage(), evidence.SourceObserved, evidence.Closed{
		State: c.State, Effect: c.Effect, Stage: c.Stage, Code: c.Code, Disposition: c.Disposition,
	})
	if err != nil {
		return ending{}, fmt.Errorf("close run %s: %w", l.run.ID, err)
	}
	end := ending{facts: chain.Facts()}
	if end.statement, err = c.Sign(end.facts); err != nil {
		return ending{}, fmt.Errorf("sign the evidence of run %s: %w", l.run.ID, err)
	}
	if n := len(end.statement); n == 0 || n > maxStatementBytes {
		return ending{}, fmt.Errorf("close run %s: a statement of %d bytes", l.run.ID, n)
	}
	result, err := l.result(c, chain, now)
	if err != nil {
		return ending{}, fmt.Errorf("close run %s: %w", l.run.ID, err)
	}
	if end.result, err = canonical.Marshal(result); err != nil {
		return ending{}, fmt.Errorf("close run %s: %w", l.run.ID, err)
	}
	if end.digest, err = canonical.DigestBytes(domainResult, end.result); err != nil {
		return ending{}, fmt.Errorf("close run %s: %w", l.run.ID, err)
	}
	if end.records, err = records(l.run, end.result, end.facts); err != nil {
		return ending{}, fmt.Errorf("close run %s: %w", l.run.ID, err)
	}
	return end, nil
}

const domainResult = "harness.result.v1"

func (l *Lease) result(c Closing, chain *evidence.Chain, now time.Time) (Result, error) {
	intended, _, err := evidence.Last[evidence.Intended](chain.Facts())
	if err != nil {
		return Result{}, err
	}
	if found, is, err := evidence.Last[evidence.Found](chain.Facts()); err != nil {
		return Result{}, err
	} else if is {
		intended.Transaction, intended.Commit = found.Transaction, found.Commit // what was changed in it is not known
	}
	head, count := chain.Head()
	return Result{
		Version: 1, Run: l.run.ID, Definition: l.run.Definition, OperationKey: l.run.OperationKey,
		ContractDigest: l.run.ContractDigest, Profile: l.run.Profile, ProfileDigest: l.run.ProfileDigest, Proof: l.run.Proof,
		Attended: l.run.Attended, Epoch: l.run.Epoch, State: c.State, Effect: c.Effect, Stage: c.Stage, Code: c.Code,
		Subject: evidence.Clean(c.Subject, maxSubjectBytes), Disposition: c.Disposition, Repository: l.run.Repository,
		TargetRef: l.run.TargetRef, Baseline: l.run.Baseline, Transaction: intended.Transaction, Commit: intended.Commit,
		ChangedCount: intended.ChangedCount, Insertions: intended.Insertions, Deletions: intended.Deletions,
		EvidenceHead: head, EvidenceCount: count, ClosedAt: evidence.FormatTime(now),
	}, nil
}

func (l *Lease) close(ctx context.Context, tx pgx.Tx, c Closing, end ending) error {
	if err := storeFacts(ctx, tx, l.run.ID, end.facts); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `
		UPDATE ops_run SET state = $2, effect = $3, stage = $4, failed_stage = nullif($5, ''), code = nullif($6, ''),
			disposition = $7, result = $8, result_digest = $9, statement = $10, finished_at = clock_timestamp(),
			lease_expires_at = NULL, next_check_at = NULL
		WHERE id = $1`, l.run.ID, c.State, c.Effect, evidence.StageClose, stageOfFailure(c), c.Code, c.Disposition,
		end.result, end.digest, end.statement)
	if err != nil {
		return err
	}
	if err := l.store.scheduleFence(ctx, tx, l.run, c.Fence); err != nil {
		return err
	}
	if err := l.store.addDeliveries(ctx, tx, l.run.ID, end.records); err != nil {
		return err
	}
	return l.store.releaseRef(ctx, tx, l.run)
}

func stageOfFailure(c Closing) evidence.Stage {
	if c.State == evidence.StateCompleted {
		return ""
	}
	return c.Stage
}

// closedAlready tells a lease that was lost from one that this holder has ended by the same close, whose answer did not arrive.
func (l *Lease) closedAlready(ctx context.Context, c Closing, lost error) error {
	run, err := l.store.Run(ctx, l.run.ID)
	if err != nil {
		return errors.Join(lost, err)
	}
	mine := run.State.Final() && run.Epoch == l.run.Epoch && run.Owner == l.run.Owner
	if mine && run.State == c.State && run.Effect == c.Effect && run.Code == c.Code && run.FailedStage == stageOfFailure(c) {
		return nil
	}
	return lost
}

// releaseRef lets go of the repository ref and wakes the run that has waited longest for it.
func (s *Store) releaseRef(ctx context.Context, tx pgx.Tx, r Run) error {
	if _, err := tx.Exec(ctx, `DELETE FROM ref_lock WHERE run_id = $1`, r.ID); err != nil {
		return err
	}
	var next job
	err := tx.QueryRow(ctx, `
		SELECT id, lease_epoch + 1, queue FROM ops_run
		WHERE repository = $1 AND target_ref = $2 AND state = 'created' AND id <> $3 AND run_due(ops_run) = 'run'
		ORDER BY created_at, id LIMIT 1 FOR UPDATE SKIP LOCKED`, r.Repository, r.TargetRef, r.ID).Scan(&next.run, &next.epoch, &next.queue)
	if isNone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	next.kind = kindRun
	return s.dispatch(ctx, tx, next)
}

// Deferral is why a run cannot be settled yet.
type Deferral struct {
	Effect evidence.Effect // unknown or partial
	Reason string          // for the operator; no secret
	Check  time.Duration   // until the remote is looked at again; at least a second
}

// Defer lets go of a run that only the remote, or an operator, can decide. It waits with its repository ref locked, is looked at
// again when due, and is listed as stuck meanwhile. No length of waiting decides it.
func (l *Lease) Defer(ctx context.Context, d Deferral) error {
	if d.Effect != evidence.EffectUnknown && d.Effect != evidence.EffectPartial {
		return fmt.Errorf("defer run %s: the effect is %s", l.run.ID, d.Effect)
	}
	err := l.write(ctx, "defer", func(tx pgx.Tx, _ holding) error {
		_, err := tx.Exec(ctx, `
			UPDATE ops_run SET state = $2, effect = $3, wait_reason = $4, lease_expires_at = NULL, stage = $5,
				next_check_at = clock_timestamp() + $6 * interval '1 millisecond'
			WHERE id = $1`, l.run.ID, evidence.StateWaitingExternal, d.Effect, evidence.Clean(d.Reason, 1024),
			evidence.StageReconcile, max(d.Check, time.Second).Milliseconds())
		return err
	})
	l.finish(err)
	return err
}
