// Package failpoint stops, kills or fails a process at a named point between two steps, so that a test can show what becomes of a run
// whose worker ended right there. It imports nothing of this module.
//
// In the same builds every operation on a lease can be written down as it is called and answered, for a checker of histories.
//
// Only a build with the tag failpoint has any of it. In every other build a point is a number, reaching one is an empty function
// that the compiler inlines to nothing, and neither the points' names nor the variable that arms them are in the binary.
package failpoint
