// Package faults says what must come of a run for every fault at every boundary between two of its steps, one cell each, and keeps
// what came of it. The tests make each fault by real means, exactly at the boundary: the worker is held there until the fault has
// begun. Normal tests run a fixed set of cells; make faults runs all of them and writes docs/faults.md from the results.
package faults
