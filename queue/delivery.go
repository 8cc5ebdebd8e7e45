package queue

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
)

// Endpoint is told of every run that has ended, by signed POSTs.
type Endpoint struct {
	Name string
	URL  string
	// KeyFile holds the key that signs each request, at least 16 bytes. It is read at each delivery, so that it can be changed.
	KeyFile string
	// Required deliveries are retried until they succeed; others are abandoned after some attempts, and labelled best-effort.
	Required bool
	// Records are what it is told; default the result alone.
	Records []Record
}

// told are the records that an endpoint gets.
func (e Endpoint) told() []Record {
	if len(e.Records) == 0 {
		return []Record{RecordResult}
	}
	return e.Records
}

func (e Endpoint) validate() error {
	u, err := url.Parse(e.URL)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil {
		return fmt.Errorf("queue: endpoint %q: an http or https URL without a credential is needed", e.Name)
	}
	if !claimantPattern.MatchString(e.Name) || e.KeyFile == "" {
		return errors.New("queue: an endpoint needs a plain name and a key file")
	}
	for i, r := range e.Records {
		if !slices.Contains(Records(), r) || slices.Contains(e.Records[:i], r) {
			return fmt.Errorf("queue: endpoint %q: %q is no record, or stands twice; there are %v", e.Name, r, Records())
		}
	}
	return nil
}

// Delivery is one record of a run on its way to one endpoint. (A48, A50)
type Delivery struct {
	ID            string
	Run           string
	Endpoint      string
	Record        Record
	Required      bool
	State         DeliveryState
	Attempts      int
	NextAttemptAt time.Time
	LastError     string
	CreatedAt     time.Time
	FinishedAt    *time.Time
}

// DeliveryState is where a delivery stands.
type DeliveryState string

// The states of a delivery.
const (
	DeliveryPending   DeliveryState = "pending"
	DeliveryDelivered DeliveryState = "delivered"
	DeliveryAbandoned DeliveryState = "abandoned" // best-effort only
)

// addDeliveries notes what each endpoint is to be told, in the closing transaction. What is there already stays.
func (s *Store) addDeliveries(ctx context.Context, tx pgx.Tx, run string, bodies map[Record][]byte) error {
	for _, e := range s.config.Endpoints {
		for _, record := range e.told() {
			id, err := uuid.NewV7()
			if err != nil {
				return fmt.Errorf("make a delivery id: %w", err)
			}
			tag, err := tx.Exec(ctx, `
				INSERT INTO delivery (id, run_id, endpoint, record, required, body) VALUES ($1, $2, $3, $4, $5, $6)
				ON CONFLICT (run_id, endpoint, record) DO NOTHING`, id.String(), run, e.Name, record, e.Required, bodies[record])
			if err != nil {
				return err
			}
			if tag.RowsAffected() == 0 {
				continue
			}
			if err := s.dispatchDelivery(ctx, tx, id.String(), 1); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Store) dispatchDelivery(ctx context.Context, tx pgx.Tx, id string, attempt int) error {
	inserted, err := s.insert.InsertTx(ctx, tx, deliverArgs{Delivery: id, Attempt: attempt},
		&river.InsertOpts{MaxAttempts: 1, Queue: queueDeliver})
	if err != nil {
		return fmt.Errorf("dispatch delivery %s: %w", id, err)
	}
	_, err = tx.Exec(ctx, `UPDATE delivery SET job_id = $2 WHERE id = $1`, id, inserted.Job.ID)
	return err
}

// DeliveryFilter chooses deliveries. Zero fields do not restrict.
type DeliveryFilter struct {
	Run      string
	Endpoint string
	State    DeliveryState
	Limit    int // default and most 1000
}

// Deliveries lists deliveries, the oldest first.
func (s *Store) Deliveries(ctx context.Context, f DeliveryFilter) ([]Delivery, error) {
	if f.Limit <= 0 || f.Limit > 1000 {
		f.Limit = 1000
	}
	rows, err := s.pool.Query(ctx, `
		SELECT id, run_id, endpoint, record, required, state, attempts, next_attempt_at, last_error, created_at, finished_at FROM delivery
		WHERE ($1 = '' OR run_id = $1) AND ($2 = '' OR endpoint = $2) AND ($3 = '' OR state = $3) ORDER BY created_at, id LIMIT $4`,
		f.Run, f.Endpoint, f.State, f.Limit)
	if err != nil {
		return nil, fmt.Errorf("list deliveries: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Delivery])
}

// OverdueDeliveries counts the required deliveries that several attempts have failed at.
func (s *Store) OverdueDeliveries(ctx context.Context) (count int, err error) {
	err = s.pool.QueryRow(ctx, `SELECT count(*) FROM delivery WHERE state = 'pending' AND required AND attempts >= 3 AND last_error <> ''`).Scan(&count)
	if err != nil {
		return 0, fmt.Errorf("count overdue deliveries: %w", err)
	}
	return count, nil
}

// Reconciled says what a reconciliation of deliveries did.
type Reconciled struct {
	Added  int // records of the run that an endpoint is to be told and was not
	Queued int // deliveries that are due again at once: pending, or abandoned
}

// ReconcileDeliveries makes what was not delivered due at once, abandoned deliveries included, and adds for one run what its endpoints
// are to be told by now and have no delivery of. It makes no work but deliveries, and changes nothing of a run. (A50)
func (s *Store) ReconcileDeliveries(ctx context.Context, f DeliveryFilter) (done Reconciled, err error) {
	err = s.transact(ctx, func(tx pgx.Tx) error {
		done = Reconciled{}
		if f.Run != "" {
			if done.Added, err = s.addMissing(ctx, tx, f.Run); err != nil {
				return err
			}
		}
		rows, err := tx.Query(ctx, `
			UPDATE delivery SET state = 'pending', finished_at = NULL, next_attempt_at = clock_timestamp()
			WHERE state <> 'delivered' AND ($1 = '' OR run_id = $1) AND ($2 = '' OR endpoint = $2) AND (attempts > 0 OR state = 'abandoned')
			RETURNING id, attempts + 1`, f.Run, f.Endpoint)
		if err != nil {
			return err
		}
		due, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct {
			ID      string
			Attempt int
		}])
		if err != nil {
			return err
		}
		for _, d := range due {
			if err := s.dispatchDelivery(ctx, tx, d.ID, d.Attempt); err != nil {
				return err
			}
		}
		done.Queued = len(due)
		return nil
	})
	if err != nil {
		return Reconciled{}, fmt.Errorf("reconcile deliveries: %w", err)
	}
	return done, nil
}

// addMissing adds the deliveries that a closed run lacks, from its stored evidence.
func (s *Store) addMissing(ctx context.Context, tx pgx.Tx, id string) (int, error) {
	runs, err := queryRuns(ctx, tx, `WHERE id = $1`, id)
	if err != nil {
		return 0, err
	}
	if len(runs) == 0 {
		return 0, fmt.Errorf("%w: %s", ErrNotFound, id)
	}
	if !runs[0].State.Final() {
		return 0, nil
	}
	facts, err := loadFacts(ctx, tx, id)
	if err != nil {
		return 0, err
	}
	bodies, err := records(runs[0], runs[0].Result, facts)
	if err != nil {
		return 0, err
	}
	const count = `SELECT count(*) FROM delivery WHERE run_id = $1`
	var before, after int
	if err := tx.QueryRow(ctx, count, id).Scan(&before); err != nil {
		return 0, err
	}
	if err := s.addDeliveries(ctx, tx, id, bodies); err != nil {
		return 0, err
	}
	err = tx.QueryRow(ctx, count, id).Scan(&after)
	return after - before, err
}
