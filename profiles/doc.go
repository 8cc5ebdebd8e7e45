// Package profiles holds what a run may be run with: immutable revisions of profiles, and what is known about them.
//
// A profile is one document that names its rein, model route, tool profile, sandbox, credential routes, controls, limits and
// grant bounds exactly, each with a revision and a digest of its own. It is published once and never changes. Whether it can
// be used is no part of it: readiness is a record of one engine for one digest, with an expiry, and an operator's block
// outranks every record. Resolve gives exactly the pinned constellation or a terminal refusal; nothing is ever substituted.
//
// It composes the specs of sandbox, rein and rein/credential with repotx's bounds, and keeps its records in Postgres: it alone
// speaks to the tables whose names begin with profile_.
package profiles
