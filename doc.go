// Package harness is the chain: what happens to a run from its emission to its close, stage after stage, and the
// reconciliation of what a lost worker left behind.
//
//	emit → claim → resolve → admit → preflight → sandbox → session → capture → teardown → accept → close → deliver
//
// Execute in harness.go is the chain read from top to bottom. The stages that need more room have files of their own:
// preflight.go, venue.go (sandbox, session, capture, teardown), accept.go, finish.go (close), reconcile.go.
//
// The package may import every other one of the product but cmd. It speaks neither SQL, nor git, nor to Docker or Vault:
// the packages that own those do. It promises that no stage is skipped, that each stage that began is torn down, that
// nothing is accepted without the evidence of every stage before it, and that no failure leads to another executor. (A1, A14)
package harness
