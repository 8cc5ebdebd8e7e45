package faults

import (
	"slices"
	"strings"
)

const (
	confirmed     = "confirmed"
	notApplied    = "not_applied"
	notDispatched = "not_dispatched"
)

// Expectation is how a run may end, and why there are several ways if there are.
type Expectation struct {
	Outcomes []Outcome
	Why      string
}

// Allows says whether a run may end so.
func (e Expectation) Allows(o Outcome) bool { return slices.Contains(e.Outcomes, o) }

func (e Expectation) String() string {
	var all []string
	for _, o := range e.Outcomes {
		all = append(all, o.String())
	}
	return strings.Join(all, "; or ")
}

var completed = Outcome{"completed", confirmed, ""}

func failed(effect, code string) Outcome { return Outcome{"failed", effect, code} }

func exactly(o Outcome) Expectation { return Expectation{Outcomes: []Outcome{o}} }

// Expected is how the run of the cell must end.
func (c Cell) Expected() Expectation {
	switch c.Kind.Part {
	case Worker:
		return c.leaseLost()
	case Database:
		if c.Kind.Long {
			return c.databaseGone()
		}
		return exactly(completed)
	case Engine:
		return c.sandboxKilled()
	case Git:
		return c.git()
	default:
		return c.vault()
	}
}

// leaseLost: a run that was not started is executed again, one that was is settled from the remote.
func (c Cell) leaseLost() Expectation {
	if c.Point.Phase == Started {
		return exactly(failed(notApplied, "worker_lost"))
	}
	return exactly(completed)
}

// databaseGone for longer than a lease is a lost lease, except where the database is asked nothing before the push.
func (c Cell) databaseGone() Expectation {
	if c.Point.Name == beforeSend {
		return exactly(completed)
	}
	return c.leaseLost()
}

// sandboxKilled before the change was captured loses it; afterwards there is nothing in it any more.
func (c Cell) sandboxKilled() Expectation {
	switch c.Point.Name {
	case "capture.after", "teardown.before":
		return exactly(completed)
	default:
		return exactly(failed(notApplied, "sandbox_lost"))
	}
}

func (c Cell) git() Expectation {
	const race = "the remote is back when it is asked, or it is not"
	switch {
	case c.Kind.Name == GitEmpty:
		return exactly(failed(notApplied, "publication_refused"))
	case c.Kind.Name == GitBetween:
		return exactly(failed(notApplied, "publication_partial"))
	case c.Kind.Name == GitNotAtomic && c.before("preflight.after"):
		return exactly(failed(notDispatched, "remote_unsupported"))
	case c.Kind.Name == GitNotAtomic && c.before("sandbox.after"):
		return exactly(failed(notApplied, "remote_unsupported"))
	case c.Kind.Name == GitNotAtomic && c.Point.Phase < Sent:
		return exactly(failed(notApplied, "publication_refused"))
	case c.Kind.Name == GitLost, c.Kind.Name == GitLate, c.Kind.Name == Slow(Git), c.Point.Phase >= Sent:
		return exactly(completed)
	case c.before("preflight.after"):
		return Expectation{[]Outcome{completed, failed(notDispatched, "remote_unreachable")}, race + " by the preflight"}
	case c.before("sandbox.after"):
		return Expectation{[]Outcome{completed, failed(notApplied, "remote_unreachable")}, race + " for the fence"}
	default:
		return Expectation{[]Outcome{completed, failed(notApplied, "publication_refused")}, race + " for the push"}
	}
}

// vault: a token is asked for once, since the answer to a second request would leave one that nobody knows; what is read or revoked
// is tried three times. A close without the signing key is done by a reconciler, which then is who ends the run.
func (c Cell) vault() Expectation {
	const race = "Vault is back when it is asked, or it is not"
	lost := failed(notApplied, "worker_lost")
	switch {
	case c.Kind.Name == Slow(Vault), !c.before("teardown.after"):
		return exactly(completed)
	case c.before("preflight.after"):
		return Expectation{
			[]Outcome{completed, failed(notDispatched, "credential_failed"), lost},
			race + " for the publish credential, and then for the signing key; without that a reconciler ends the run",
		}
	case c.before("session.after"):
		return Expectation{
			[]Outcome{completed, failed(notApplied, "credential_failed"), lost},
			race + " for the session's credential, and then for the signing key; without that a reconciler ends the run",
		}
	default:
		return Expectation{
			[]Outcome{completed, failed(notApplied, "revocation_failed"), lost},
			race + " to revoke the session's credential, and then for the signing key; without that a reconciler ends the run",
		}
	}
}

// before says whether the cell's boundary comes before another.
func (c Cell) before(name string) bool {
	for _, p := range Points() {
		if p.Name == name {
			return false
		}
		if p == c.Point {
			return true
		}
	}
	return false
}
