// Package robustness runs a whole deployment under random faults and judges what came of it: workers as processes that are killed,
// stopped and drained, proxies that slow, cut and reset the way to Postgres, Vault and git, and a history of what everybody saw. What
// is recorded is in package history, what must hold in package validate. The README says how to run it and what it has found.
package robustness
