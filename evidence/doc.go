// Package evidence holds what a run leaves behind so that somebody who was not there can check it: typed facts, chained per run,
// closed by a signed statement, and the words every package uses for stages, codes, effects and states.
//
// A fact's body is a struct with allowlisted fields, so a prompt, a tool's body, a command's output or a secret has nowhere to go.
// Every string is escaped and bounded when the fact is made, every list is bounded and says how much was cut. Facts are chained
// by digests over their exact canonical bytes; the order of the chain refuses an acceptance that no sandbox, session and
// teardown stand behind. At close the chain becomes an in-toto Statement v1 in a DSSE envelope, signed with Ed25519, and anyone
// with the trust file can verify it without the harness's database.
//
// It imports internal/canonical and nothing else of the harness.
package evidence
