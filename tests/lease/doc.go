// Package lease shows what becomes of runs whose worker is killed, stopped, cut off or told to stop, with workers as processes of the
// real binary.
package lease
