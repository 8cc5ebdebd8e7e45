// Package canonical is the one strict reader and the one canonical writer of the harness's documents: requests, profiles,
// manifests, configuration, trust files and evidence.
//
// It promises that a document which is accepted has exactly one meaning and exactly one canonical form. Whatever two readers
// could understand differently is refused, never repaired: duplicate keys, unknown fields, null, bad UTF-8, lone surrogates,
// numbers that are no safe integer, trailing data, and for YAML also anchors, aliases, merge keys, tags and several documents.
// Everything is bounded before it is understood. Errors name the place and the rule and never quote a value. (B18, B19)
//
// It imports nothing of the harness.
package canonical
