// Package boottime measures how long something takes on a machine that may be suspended and whose clock may be set meanwhile. It
// imports nothing of the product; Linux only.
package boottime
