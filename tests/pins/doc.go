// Package pins shows that a run is executed as exactly what was emitted or not at all: whatever is exchanged on the way, and whatever
// is not ready, blocked, unknown or lacking, ends in a refusal that names it, and in nothing on the engine or the remote.
package pins
