package faults

import (
	"fmt"
	"time"
)

// TTL is how long a lease lives, and the lengths of faults that go by it.
const (
	TTL   = 3 * time.Second
	Short = time.Second
	Long  = TTL + 2*time.Second
)

// Part is what a fault is done to.
type Part string

// The parts.
const (
	Worker   Part = "worker"
	Database Part = "database"
	Vault    Part = "vault"
	Git      Part = "git"
	Engine   Part = "engine"
)

// Kind is one kind of fault.
type Kind struct {
	Name string
	Part Part
	Long bool // it outlasts the lease
	What string
}

// The kinds that are not one of several ways to the same part.
const (
	WorkerKilled      = "worker killed"
	WorkerStopped     = "worker stopped"
	BackendsEnded     = "database connections ended"
	DatabaseReadOnly  = "database read-only"
	DatabaseAwayLong  = "database away for long"
	SandboxKilled     = "sandbox killed"
	GitEmpty          = "git answers nothing"
	GitLost           = "git answer lost"
	GitLate           = "git answers late"
	GitBetween        = "git dies between refs"
	GitNotAtomic      = "git loses atomic"
	halfOpen, resets  = "half open", "resets"
	slow, awayShortly = "slow", "away shortly"
)

// HalfOpen, Resets, Slow and Away name the faults of the way to a part.
func HalfOpen(p Part) string { return string(p) + " " + halfOpen }

// Resets resets every connection to a part.
func Resets(p Part) string { return string(p) + " " + resets }

// Slow delays what a part says.
func Slow(p Part) string { return string(p) + " " + slow }

// Away takes no connection to a part, for less than a lease.
func Away(p Part) string { return string(p) + " " + awayShortly }

// Kinds are all kinds of faults.
func Kinds() []Kind {
	kinds := []Kind{
		{WorkerKilled, Worker, true, "SIGKILL to the worker; a second worker is started"},
		{WorkerStopped, Worker, true, fmt.Sprintf("SIGSTOP to the worker, SIGCONT when a second worker has ended the run, after %s at least", Long)},
		{BackendsEnded, Database, false, "pg_terminate_backend of every connection of the worker"},
		{DatabaseAwayLong, Database, true, fmt.Sprintf("no connection to Postgres for %s", Long)},
		{DatabaseReadOnly, Database, true, fmt.Sprintf("default_transaction_read_only and all connections terminated, for %s", Long)},
	}
	for _, p := range []Part{Database, Vault, Git} {
		kinds = append(kinds,
			Kind{Away(p), p, false, fmt.Sprintf("no connection to it for %s", Short)},
			Kind{HalfOpen(p), p, false, fmt.Sprintf("connections stay open and carry nothing for %s, then they end", Short)},
			Kind{Resets(p), p, false, fmt.Sprintf("every connection is reset, for %s", Short)},
			Kind{Slow(p), p, false, fmt.Sprintf("whatever it says takes %s longer, for %s", Delay, TTL)},
		)
	}
	return append(kinds,
		Kind{SandboxKilled, Engine, false, "the engine kills the container"},
		Kind{GitEmpty, Git, false, "the push is answered by 200 and nothing, and not applied"},
		Kind{GitLost, Git, false, "the push is applied, and its connection ends without an answer"},
		Kind{GitLate, Git, true, fmt.Sprintf("the push is applied at once and answered after %s", Long)},
		Kind{GitNotAtomic, Git, false, "the remote no longer offers atomic updates, until the run has ended"},
		Kind{GitBetween, Git, false, "the fence is moved and the branch is not; an operator who has looked ends the run as not applied"},
	)
}

// Delay is how much longer a slow part takes for everything it says.
const Delay = 100 * time.Millisecond
