package stack

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Database makes an empty database and returns its URL. It is dropped when the test ends, whoever is connected.
func (s *Stack) Database(t testing.TB) string {
	t.Helper()
	return s.database(t, "template0")
}

// DatabaseFrom makes a database as migrate leaves it and returns its URL. Migrate runs once for each name and test
// program; every further database is a copy. It must close its connections before it returns.
func (s *Stack) DatabaseFrom(t testing.TB, name string, migrate func(ctx context.Context, url string) error) string {
	t.Helper()
	// The program is part of the template's name: other migrations are another program.
	program, err := programDigest()
	if err != nil {
		t.Fatalf("database template: %v", err)
	}
	template := "template_" + name + "_" + program
	if err := s.template(t.Context(), template, migrate); err != nil {
		t.Fatalf("database template: %v", err)
	}
	return s.database(t, template)
}

// template makes the template database unless it is there. An advisory lock keeps other test programs waiting; a
// template counts as made only once it is marked as one.
func (s *Stack) template(ctx context.Context, name string, migrate func(ctx context.Context, url string) error) error {
	connection, err := s.Postgres.connect(ctx, "postgres")
	if err != nil {
		return err
	}
	defer connection.Close(context.WithoutCancel(ctx)) // lets go of the lock
	if _, err := connection.Exec(ctx, `SELECT pg_advisory_lock(hashtextextended($1, 0))`, name); err != nil {
		return err
	}
	var made bool
	const query = `SELECT EXISTS (SELECT 1 FROM pg_database WHERE datname = $1 AND datistemplate)`
	if err := connection.QueryRow(ctx, query, name).Scan(&made); err != nil || made {
		return err
	}
	quoted := pgx.Identifier{name}.Sanitize()
	for _, statement := range []string{
		"DROP DATABASE IF EXISTS " + quoted + " WITH (FORCE)", // of a program that died while migrating
		"CREATE DATABASE " + quoted + " TEMPLATE template0",
	} {
		if _, err := connection.Exec(ctx, statement); err != nil {
			return err
		}
	}
	url, err := s.Postgres.URL(name)
	if err != nil {
		return err
	}
	if err := migrate(ctx, url); err != nil {
		return err
	}
	_, err = connection.Exec(ctx, "ALTER DATABASE "+quoted+" IS_TEMPLATE true")
	return err
}

func (s *Stack) database(t testing.TB, template string) string {
	t.Helper()
	name := "test_" + strings.ToLower(rand.Text()[:12])
	quoted := pgx.Identifier{name}.Sanitize()
	if err := s.administer(t.Context(), "CREATE DATABASE "+quoted+" TEMPLATE "+pgx.Identifier{template}.Sanitize()); err != nil {
		t.Fatalf("create database: %v", err)
	}
	t.Cleanup(func() {
		if err := s.administer(context.Background(), "DROP DATABASE IF EXISTS "+quoted+" WITH (FORCE)"); err != nil {
			t.Errorf("drop database: %v", err)
		}
	})
	url, err := s.Postgres.URL(name)
	if err != nil {
		t.Fatal(err)
	}
	return url
}

func (s *Stack) administer(ctx context.Context, statement string) error {
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	connection, err := s.Postgres.connect(ctx, "postgres")
	if err != nil {
		return err
	}
	defer connection.Close(context.WithoutCancel(ctx))
	_, err = connection.Exec(ctx, statement)
	return err
}

// programDigest identifies the running test program by its content.
var programDigest = sync.OnceValues(func() (string, error) {
	program, err := os.Open("/proc/self/exe")
	if err != nil {
		return "", err
	}
	defer program.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, program); err != nil {
		return "", fmt.Errorf("read the test program: %w", err)
	}
	return hex.EncodeToString(hash.Sum(nil)[:6]), nil
})
