package queue

import (
	"context"
	"errors"
	"io"
	"net"

	"github.com/jackc/pgx/v5/pgconn"
)

// Why a run cannot be acted for. Each is found with errors.Is.
var (
	ErrNotFound         = errors.New("no such run")
	ErrNotClaimable     = errors.New("the run is not claimable")
	ErrRefLocked        = errors.New("another run works on the repository's ref")
	ErrRepositoryBusy   = errors.New("as many runs work on the repository as their definitions allow")
	ErrNoDefinition     = errors.New("no such definition")
	ErrPaused           = errors.New("the harness is paused")
	ErrLeaseLost        = errors.New("the lease is lost")
	ErrCancelRequested  = errors.New("the run is cancelled")
	ErrStarted          = errors.New("the run was started")
	ErrFinal            = errors.New("the run is final")
	ErrIntentConflict   = errors.New("the run has another intent")
	ErrFactConflict     = errors.New("the stored facts are not the beginning of these")
	ErrDatabaseReplaced = errors.New("the database is not the one it was: restored, failed over or set back; adopt it with `harness doctor --adopt`")
	ErrSchemaNewer      = errors.New("the database's schema is newer than this binary: upgrade the binary")
	ErrSchemaOlder      = errors.New("the database's schema is older than this binary: run `harness migrate`")
)

// SQLSTATEs raised by the schema's own guards.
const (
	sqlIllegalTransition = "HN001"
	sqlReadOnly          = "25006"
)

func sqlState(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// transient reports whether the same write may succeed a moment later: the server did not answer, was going down, is read-only for
// now, or chose this transaction as the victim. A refusal by a constraint or a guard is not transient, and no lease comes back.
func transient(err error) bool {
	if errors.Is(err, ErrLeaseLost) || errors.Is(err, ErrCancelRequested) {
		return false
	}
	if code := sqlState(err); code != "" {
		switch code[:2] {
		case "08", "40", "53", "57", "58":
			return true
		}
		return code == "55P03" || code == sqlReadOnly || code == "25P03" || stalePlan(err)
	}
	var network net.Error
	var connect *pgconn.ConnectError
	return errors.As(err, &network) || errors.As(err, &connect) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || pgconn.SafeToRetry(err)
}

// stalePlan reports whether a statement was prepared for a table that has other columns by now. The transaction has failed by it.
func stalePlan(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "0A000" && pg.Routine == "RevalidateCachedQuery"
}
