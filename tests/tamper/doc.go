// Package tamper shows that the evidence of a run that really landed cannot be changed unseen: not its facts, its end, its signature,
// its profile, its row, nor the branch it speaks of; and that what later happens legitimately does not speak against it.
package tamper
