// Package credential takes credentials from Vault for one run at a time and gives them back.
//
// A worker's own token cannot read a secret. For each purpose of a run it creates a child token on a token role, has the
// accessor recorded in the caller's Ledger before the token's first use, reads with that child alone, and revokes it by
// accessor. A revocation counts only when Vault itself says that the accessor is unknown. What a crash leaves behind is
// found by the ledger's accessors, and by token metadata where not even the ledger knows (Sweep); in any case it ends at
// the explicit maximum lifetime the token was created with.
//
// Routes are declared by profiles; a route whose policy the session was not opened with is refused without a call. Every
// value is a Secret, which prints, formats, marshals and logs as a placeholder, and evidence names routes and never values.
//
// It is the only package that speaks to Vault. It imports evidence, and repotx for the form of a publish credential.
package credential
