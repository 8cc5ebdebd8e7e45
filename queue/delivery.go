package queue

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
)

// Endpoint is told the result of every run by a signed POST.
type Endpoint struct {
	Name string
	URL  string
	// KeyFile holds the key that signs each request, at least 16 bytes. It is read at each delivery, so that it can be changed.
	KeyFile string
	// Required deliveries are retried until they succeed; others are abandoned after some attempts, and labelled best-effort.
	Required bool
}

func (e Endpoint) validate() error {
	u, err := url.Parse(e.URL)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil {
		return fmt.Errorf("queue: endpoint %q: an http or https URL without a credential is needed", e.Name)
	}
	if !claimantPattern.MatchString(e.Name) || e.KeyFile == "" {
		return errors.New("queue: an endpoint needs a plain name and a key file")
	}
	return nil
}

// Delivery is one result on its way to one endpoint. (A48)
type Delivery struct {
	ID            string
	Run           string
	Endpoint      string
	Required      bool
	State         string // pending, delivered, or abandoned (best-effort only)
	Attempts      int
	NextAttemptAt time.Time
	LastError     string
	CreatedAt     time.Time
	FinishedAt    *time.Time
}

// addDeliveries notes the result for each endpoint, in the closing transaction.
func (s *Store) addDeliveries(ctx context.Context, tx pgx.Tx, run string, body []byte) error {
	for _, e := range s.config.Endpoints {
		id, err := uuid.NewV7()
		if err != nil {
			return fmt.Errorf("make a delivery id: %w", err)
		}
		_, err = tx.Exec(ctx, `INSERT INTO delivery (id, run_id, endpoint, required, body) VALUES ($1, $2, $3, $4, $5)`,
			id.String(), run, e.Name, e.Required, body)
		if err != nil {
			return err
		}
		if err := s.dispatchDelivery(ctx, tx, id.String(), 1); err != nil {
			return err
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

// Deliveries lists the deliveries of a run; with run empty, those of all runs that are not delivered, the oldest first.
func (s *Store) Deliveries(ctx context.Context, run string) ([]Delivery, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT id, run_id, endpoint, required, state, attempts, next_attempt_at, last_error, created_at, finished_at FROM delivery
		WHERE run_id = $1 OR $1 = '' AND state = 'pending' ORDER BY created_at, id LIMIT 1000`, run)
	if err != nil {
		return nil, fmt.Errorf("list deliveries: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Delivery])
}
