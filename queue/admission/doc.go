// Package admission is the one decision engine: given everything that is known of a run before anything is changed, it answers
// allowed, approval_required or blocked, with sorted reason codes and an id that the same input always gives.
//
// It is pure: no clock, no database, no network. It may import evidence, repotx and internal/canonical. Nothing else in the
// product reinterprets its answer.
package admission
