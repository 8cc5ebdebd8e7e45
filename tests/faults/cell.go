package faults

import "fmt"

// Cell is one kind of fault at one boundary.
type Cell struct {
	Point Point
	Kind  Kind
}

// Name names the cell, in results and as a test.
func (c Cell) Name() string { return c.Kind.Name + "/" + c.Point.Name }

// Cells are all cells, fault by fault.
func Cells() []Cell {
	var all []Cell
	for _, k := range Kinds() {
		for _, p := range Points() {
			all = append(all, Cell{p, k})
		}
	}
	return all
}

// Left says why a cell is not run; empty, it is.
func (c Cell) Left() string {
	switch c.Kind.Name {
	case GitEmpty, GitLost, GitLate, GitBetween:
		if c.Point.Name != beforeSend {
			return "the fault is in the answer to the one push of the branch, which comes after " + beforeSend
		}
	case SandboxKilled:
		if !c.Point.Sandbox {
			return "there is no sandbox at this boundary"
		}
	case Away(Git), HalfOpen(Git), Resets(Git), Slow(Git), GitNotAtomic:
		if c.Point.Phase >= Sent && c.Point.Name != "accept.after_send" {
			return "nothing is asked of git after the commit was read back"
		}
	}
	return ""
}

// Covering is the fixed set that normal tests run: the worker killed at every boundary from the intent to the close, and every kind
// of fault where it has the most to spoil.
func Covering() []Cell {
	points := map[string][]string{
		WorkerKilled: {
			"claim.before", "session.after", "accept.before_intent", "accept.after_intent", beforeSend, "accept.after_send", "accept.after",
			"close.before", "close.after_sign", "close.after",
		},
		WorkerStopped: {beforeSend}, SandboxKilled: {"session.before"},
		GitEmpty: {beforeSend}, GitLost: {beforeSend}, GitBetween: {beforeSend}, GitLate: {beforeSend}, GitNotAtomic: {beforeSend},
		BackendsEnded: {"close.after_sign"}, DatabaseAwayLong: {"accept.after_send"}, DatabaseReadOnly: {"accept.after_intent"},
		Away(Database): {"accept.after_send"}, HalfOpen(Database): {"accept.before_intent"}, Resets(Database): {"close.before"}, Slow(Database): {"preflight.before"},
		Away(Vault): {"close.before"}, HalfOpen(Vault): {"preflight.started"}, Resets(Vault): {"session.before"}, Slow(Vault): {"session.before"},
		Away(Git): {beforeSend}, HalfOpen(Git): {"preflight.started"}, Resets(Git): {"accept.after_send"}, Slow(Git): {beforeSend},
	}
	var set []Cell
	for _, c := range Cells() {
		for _, p := range points[c.Kind.Name] {
			if p == c.Point.Name {
				set = append(set, c)
			}
		}
	}
	return set
}

// Outcome is how a run ends.
type Outcome struct {
	State  string `json:"state"`
	Effect string `json:"effect"`
	Code   string `json:"code,omitempty"` // of a failure
}

func (o Outcome) String() string {
	if o.Code == "" {
		return o.State + ", " + o.Effect
	}
	return fmt.Sprintf("%s, %s (%s)", o.State, o.Effect, o.Code)
}
