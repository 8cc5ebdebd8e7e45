package queue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
)

// Config says how a process uses the queue.
type Config struct {
	// URL of the Postgres database. It may hold a password and is never shown.
	URL string
	// TTL of a lease, the same for every worker of the database; default 30 s. Beat is the time between heartbeats, default a
	// third of it. Margin is how long before its expiry a holder stops by itself, default a tenth.
	TTL, Beat, Margin time.Duration
	// MaxConnections of the pool; default 16.
	MaxConnections int32
	// TransactionPooling says that a pooler in transaction mode stands between: no prepared statements, no LISTEN, and limits
	// set inside each transaction.
	TransactionPooling bool
	// FenceRetention is how long a fence ref outlives the final close; default 24 h. It exceeds any publish credential's life.
	FenceRetention time.Duration
	// MinInterval is the shortest fixed interval that a definition's schedule may have; default a minute.
	MinInterval time.Duration
	// Endpoints are told the result of each run.
	Endpoints []Endpoint
	// Logger for what no caller is told; nil discards.
	Logger *slog.Logger
}

// WithDefaults fills in what is left out.
func (c Config) WithDefaults() Config {
	if c.TTL == 0 {
		c.TTL = 30 * time.Second
	}
	if c.Beat == 0 {
		c.Beat = c.TTL / 3
	}
	if c.Margin == 0 {
		c.Margin = c.TTL / 10
	}
	if c.MaxConnections == 0 {
		c.MaxConnections = 16
	}
	if c.FenceRetention == 0 {
		c.FenceRetention = 24 * time.Hour
	}
	if c.MinInterval == 0 {
		c.MinInterval = time.Minute
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	return c
}

func (c Config) validate() error {
	switch {
	case c.URL == "":
		return errors.New("queue: no database URL")
	case c.TTL < time.Second || c.Beat <= 0 || c.Margin <= 0 || 2*c.Beat+c.Margin > c.TTL:
		return fmt.Errorf("queue: a lease of %s cannot be kept by a beat of %s with a margin of %s", c.TTL, c.Beat, c.Margin)
	case c.FenceRetention < time.Hour:
		return errors.New("queue: fences must be kept for an hour at least")
	}
	names := map[string]bool{}
	for _, e := range c.Endpoints {
		if err := e.validate(); err != nil {
			return err
		}
		if names[e.Name] {
			return fmt.Errorf("queue: endpoint %q stands twice", e.Name)
		}
		names[e.Name] = true
	}
	return nil
}

// The limits of one statement, one wait for a lock and one idle transaction. All are below the TTL, so that a worker that was
// stopped in the middle cannot hold a row for longer than its lease.
func (c Config) limits() map[string]time.Duration {
	return map[string]time.Duration{
		"statement_timeout":                   c.TTL / 2,
		"lock_timeout":                        c.TTL / 3,
		"idle_in_transaction_session_timeout": c.TTL / 2,
	}
}

// Store is one process's access to the queue. It is safe for concurrent use.
type Store struct {
	config Config
	pool   *pgxpool.Pool
	// beats carries the heartbeats alone, so that no amount of other work makes one wait for a connection.
	beats   *pgxpool.Pool
	insert  *river.Client[pgx.Tx]
	webhook *http.Client
	seen    seenLog
	clock   clock
}

// Open connects and checks that the schema is this binary's and the database the one it was. A replaced database can be opened,
// to be looked at and adopted; nothing can be claimed in it.
func Open(ctx context.Context, config Config) (*Store, error) {
	config = config.WithDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	pool, err := openPool(ctx, config, config.MaxConnections)
	if err != nil {
		return nil, err
	}
	s := &Store{config: config, pool: pool, webhook: newWebhookClient()}
	if err := s.open(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Store) open(ctx context.Context) error {
	if err := checkSchema(ctx, s.pool); err != nil {
		return err
	}
	if err := s.readClock(ctx); err != nil {
		return err
	}
	var err error
	if s.beats, err = openPool(ctx, s.config, 2); err != nil {
		return err
	}
	// The client gives notice of a queue's jobs no more often than it would fetch them. Two runs emitted within that time must both
	// be noticed, or an idle worker finds the second one only when it polls.
	config := &river.Config{FetchCooldown: river.FetchCooldownMin, Logger: s.config.Logger}
	if s.insert, err = river.NewClient(riverpgxv5.New(s.pool), config); err != nil {
		return fmt.Errorf("prepare River: %w", err)
	}
	return nil
}

func openPool(ctx context.Context, config Config, connections int32) (*pgxpool.Pool, error) {
	pc, err := pgxpool.ParseConfig(config.URL)
	if err != nil {
		return nil, errors.New("database URL: does not parse") // the error of pgx may show a password
	}
	pc.MaxConns = connections
	// What a lease holder waits for is bounded by the lease besides.
	pc.ConnConfig.ConnectTimeout = 10 * time.Second
	// A server that became read-only is left, and one that is read-only is never taken. (CASES 3)
	pc.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	if config.TransactionPooling {
		pc.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
	// Set after connecting and not as start-up parameters, which poolers refuse (CASES 5); in one round trip, since a lease may have
	// little left when its heartbeat connects anew.
	var set []string
	for name, limit := range config.limits() {
		set = append(set, fmt.Sprintf(`SET %s = %d`, name, limit.Milliseconds()))
	}
	pc.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if _, err := conn.PgConn().Exec(ctx, strings.Join(set, "; ")).ReadAll(); err != nil {
			return fmt.Errorf("set the limits of the connection: %w", err)
		}
		return nil
	}
	pool, err := pgxpool.NewWithConfig(ctx, pc)
	if err != nil {
		return nil, fmt.Errorf("connect to the database: %w", err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("connect to the database: %w", err)
	}
	return pool, nil
}

// Close ends all connections. Workers and leases are to be stopped first.
func (s *Store) Close() {
	if s.beats != nil {
		s.beats.Close()
	}
	s.pool.Close()
	s.webhook.CloseIdleConnections()
}

// Pool is for the packages that keep tables of their own in the same database.
func (s *Store) Pool() *pgxpool.Pool { return s.pool }

// transact runs fn in a transaction, and once more when the tables had changed under it. Every write goes through here.
func (s *Store) transact(ctx context.Context, fn func(tx pgx.Tx) error) error {
	err := s.tryTransact(ctx, fn)
	if stalePlan(err) { // nothing was done, and the connections that remember the tables as they were are gone
		err = s.tryTransact(ctx, fn)
	}
	return err
}

func (s *Store) tryTransact(ctx context.Context, fn func(tx pgx.Tx) error) error {
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if s.config.TransactionPooling {
			for name, limit := range s.config.limits() {
				if _, err := tx.Exec(ctx, fmt.Sprintf(`SET LOCAL %s = %d`, name, limit.Milliseconds())); err != nil {
					return fmt.Errorf("set %s: %w", name, err)
				}
			}
		}
		return fn(tx)
	})
	s.noteError(err)
	return err
}

// noteError leaves a server that turned read-only: the connections to it are given up, and the next finds the new primary. So are
// connections that were prepared for tables as they were before a migration or a restore.
func (s *Store) noteError(err error) {
	if sqlState(err) == sqlReadOnly || stalePlan(err) {
		s.pool.Reset()
		s.beats.Reset()
	}
}
