package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/rein-aharness/harness/queue/migrations"
)

const (
	schemaTable = "harness_schema"
	// migrateLock is the advisory lock under which one process migrates at a time; it holds on a plain connection only, so
	// `migrate` is not run through a transaction pooler.
	migrateLock = 0x6861726e657373
)

// Migrate brings the database at url to the schema of this binary, River's tables included. It may be run at any time and by
// several at once. Workers of the version before go on meanwhile.
func Migrate(ctx context.Context, url string) error {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return errors.New("database URL: does not parse") // the error of pgx may show a password
	}
	config.MaxConns = 4
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("connect to the database: %w", err)
	}
	defer pool.Close()
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("connect to the database: %w", err)
	}
	// Closed rather than given back, so that the lock is let go whatever happens.
	lock := conn.Hijack()
	defer lock.Close(context.WithoutCancel(ctx))
	if _, err := lock.Exec(ctx, `SELECT pg_advisory_lock($1)`, migrateLock); err != nil {
		return fmt.Errorf("wait for another migration: %w", err)
	}

	river, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return fmt.Errorf("prepare River's migrations: %w", err)
	}
	if _, err := river.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return fmt.Errorf("migrate River's tables: %w", err)
	}
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	provider, err := goose.NewProvider(goose.DialectPostgres, db, migrations.FS,
		goose.WithTableName(schemaTable), goose.WithAllowOutofOrder(true), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("prepare the migrations: %w", err)
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

// checkSchema compares the versions in the database with those of this binary.
func checkSchema(ctx context.Context, pool *pgxpool.Pool) error {
	known, err := knownVersions()
	if err != nil {
		return err
	}
	var exists bool
	if err := pool.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL`, schemaTable).Scan(&exists); err != nil {
		return fmt.Errorf("read the schema's version: %w", err)
	}
	if !exists {
		return ErrSchemaOlder
	}
	rows, err := pool.Query(ctx, `SELECT version_id FROM `+schemaTable+` WHERE version_id > 0 AND is_applied`)
	if err != nil {
		return fmt.Errorf("read the schema's version: %w", err)
	}
	applied, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return fmt.Errorf("read the schema's version: %w", err)
	}
	for _, v := range applied {
		if !slices.Contains(known, v) {
			return fmt.Errorf("%w (version %d)", ErrSchemaNewer, v)
		}
	}
	for _, v := range known {
		if !slices.Contains(applied, v) {
			return fmt.Errorf("%w (version %d is missing)", ErrSchemaOlder, v)
		}
	}
	return nil
}

func knownVersions() ([]int64, error) {
	entries, err := migrations.FS.ReadDir(".")
	if err != nil {
		return nil, fmt.Errorf("list the migrations: %w", err)
	}
	var versions []int64
	for _, e := range entries {
		v, err := goose.NumericComponent(e.Name())
		if err != nil {
			return nil, fmt.Errorf("migration %s: %w", e.Name(), err)
		}
		versions = append(versions, v)
	}
	return versions, nil
}
