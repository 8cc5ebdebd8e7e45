package queue

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/rein-aharness/harness/evidence"
)

// The River queues. An attended run has one of its own, named by its process.
const (
	queueRun       = "run"
	queueReconcile = "reconcile"
	queueDeliver   = "deliver"
)

// jobKind is what a job does for a run; the names are those that run_due gives.
type jobKind string

const (
	kindRun       jobKind = "run"
	kindReconcile jobKind = "reconcile"
)

func (k jobKind) stage() evidence.Stage {
	if k == kindReconcile {
		return evidence.StageReconcile
	}
	return evidence.StageClaim
}

func (k jobKind) closeStage() evidence.Stage {
	if k == kindReconcile {
		return evidence.StageReconcile
	}
	return evidence.StageClose
}

// job is one lease attempt to be dispatched.
type job struct {
	run   string
	kind  jobKind
	epoch int64 // that the attempt is to take
	queue string
}

type runArgs struct {
	Run   string `json:"run"`
	Epoch int64  `json:"epoch"`
}

func (runArgs) Kind() string { return "harness_run" }

type reconcileArgs struct {
	Run   string `json:"run"`
	Epoch int64  `json:"epoch"`
}

func (reconcileArgs) Kind() string { return "harness_reconcile" }

type deliverArgs struct {
	Delivery string `json:"delivery"`
	Attempt  int    `json:"attempt"`
}

func (deliverArgs) Kind() string { return "harness_deliver" }

// dispatch inserts the River job of one lease attempt, which River never repeats by itself, and notes it at the run.
func (s *Store) dispatch(ctx context.Context, tx pgx.Tx, j job) error {
	var args river.JobArgs = runArgs{Run: j.run, Epoch: j.epoch}
	if j.kind == kindReconcile {
		args = reconcileArgs{Run: j.run, Epoch: j.epoch}
	}
	inserted, err := s.insert.InsertTx(ctx, tx, args, &river.InsertOpts{MaxAttempts: 1, Queue: j.queue})
	if err != nil {
		return fmt.Errorf("dispatch run %s: %w", j.run, err)
	}
	_, err = tx.Exec(ctx, `UPDATE ops_run SET job_id = $2 WHERE id = $1`, j.run, inserted.Job.ID)
	return err
}
