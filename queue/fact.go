package queue

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/rein-aharness/harness/evidence"
)

// Facts reads the evidence chain of a run in its order. It is not verified here. What is stored and is no fact is an error that wraps
// evidence.ErrFactMalformed; the facts before it are returned beside it.
func (s *Store) Facts(ctx context.Context, run string) ([]evidence.Fact, error) {
	facts, err := loadFacts(ctx, s.pool, run)
	if err != nil {
		return facts, err
	}
	if len(facts) == 0 {
		return nil, fmt.Errorf("%w: %s", ErrNotFound, run)
	}
	return facts, nil
}

func loadFacts(ctx context.Context, q querier, run string) ([]evidence.Fact, error) {
	rows, err := q.Query(ctx, `SELECT seq, digest, bytes FROM run_fact WHERE run_id = $1 ORDER BY seq`, run)
	if err != nil {
		return nil, fmt.Errorf("read the facts of run %s: %w", run, err)
	}
	stored, err := pgx.CollectRows(rows, pgx.RowToStructByPos[storedFact])
	if err != nil {
		return nil, fmt.Errorf("read the facts of run %s: %w", run, err)
	}
	facts := make([]evidence.Fact, 0, len(stored))
	for i, row := range stored {
		f, err := row.fact()
		if err != nil {
			return facts, fmt.Errorf("fact %d of run %s: %w", i+1, run, err)
		}
		facts = append(facts, f)
	}
	return facts, nil
}

// storedFact is a row of run_fact. Seq and Digest stand in Bytes too.
type storedFact struct {
	Seq    int
	Digest string
	Bytes  []byte
}

func (s storedFact) fact() (evidence.Fact, error) {
	f, err := evidence.DecodeFact(s.Bytes)
	if err != nil {
		return evidence.Fact{}, err
	}
	if f.Seq != s.Seq || f.Digest != s.Digest {
		return evidence.Fact{}, fmt.Errorf("%w: its row has another number or digest", evidence.ErrFactMalformed)
	}
	return f, nil
}

// storeFacts appends what the store does not have yet. The caller holds the run's row. When a commit's answer was lost, some of the
// facts are stored already; that is seen by their digests.
func storeFacts(ctx context.Context, tx pgx.Tx, run string, facts []evidence.Fact) error {
	var last int
	var head string
	err := tx.QueryRow(ctx, `SELECT seq, digest FROM run_fact WHERE run_id = $1 ORDER BY seq DESC LIMIT 1`, run).Scan(&last, &head)
	if err != nil && !isNone(err) {
		return err
	}
	if last > len(facts) || last > 0 && facts[last-1].Digest != head {
		return ErrFactConflict
	}
	fresh := facts[last:]
	if len(fresh) == 0 {
		return nil
	}
	seqs, digests, documents := make([]int, len(fresh)), make([]string, len(fresh)), make([][]byte, len(fresh))
	for i, f := range fresh {
		seqs[i], digests[i] = f.Seq, f.Digest
		if documents[i], err = f.Encode(); err != nil {
			return fmt.Errorf("fact %d: %w", f.Seq, err)
		}
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO run_fact (run_id, seq, digest, bytes)
		SELECT $1, s, d, b FROM unnest($2::int[], $3::text[], $4::bytea[]) AS f (s, d, b)`, run, seqs, digests, documents)
	return err
}

// SupplyTornDown adds what became of a run's sandbox after the run was closed: a reconciler on another machine could not see it, and
// the janitor of the engine's host did. It decides nothing. (A25)
func (s *Store) SupplyTornDown(ctx context.Context, run string, body evidence.TornDown) error {
	err := s.transact(ctx, func(tx pgx.Tx) error {
		var epoch int64
		var final bool
		err := tx.QueryRow(ctx, `SELECT lease_epoch, finished_at IS NOT NULL FROM ops_run WHERE id = $1 FOR UPDATE`, run).Scan(&epoch, &final)
		switch {
		case isNone(err):
			return fmt.Errorf("%w: %s", ErrNotFound, run)
		case err != nil:
			return err
		case !final:
			return fmt.Errorf("%w: the run is not closed", ErrNotClaimable)
		}
		facts, err := loadFacts(ctx, tx, run)
		if err != nil {
			return err
		}
		chain, err := evidence.Resume(facts)
		if err != nil {
			return err
		}
		_, err = chain.Append(s.Now(), epoch, evidence.StageTeardown, evidence.SourceObserved, body)
		if err != nil {
			return err
		}
		return storeFacts(ctx, tx, run, chain.Facts())
	})
	if err != nil {
		return fmt.Errorf("supply the teardown of run %s: %w", run, err)
	}
	return nil
}
