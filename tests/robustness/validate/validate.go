package validate

import (
	"time"

	"github.com/rein-aharness/harness/tests/robustness/history"
)

// Violation is one thing that must not be.
type Violation struct {
	Name    string `json:"name"`
	Subject string `json:"subject"` // a run, a repository or a worker
	Detail  string `json:"detail"`
}

func (v Violation) String() string { return v.Name + ": " + v.Subject + ": " + v.Detail }

// checkWithin bounds how long a model is held against one history. A history that cannot be checked in it is a violation too.
const checkWithin = time.Minute

// All judges a record by everything there is.
func All(r history.Record) []Violation {
	var all []Violation
	for _, judge := range []func(history.Record) []Violation{
		leases, claims, transactions, remotes, changes, emissions, ends, commits, left, resources,
	} {
		all = append(all, judge(r)...)
	}
	return all
}

// by groups what a record has by a key, in the order of first appearance.
func by[T any](all []T, key func(T) string) (keys []string, groups map[string][]T) {
	groups = map[string][]T{}
	for _, one := range all {
		k := key(one)
		if _, found := groups[k]; !found {
			keys = append(keys, k)
		}
		groups[k] = append(groups[k], one)
	}
	return keys, groups
}
