// Package bench measures the harness against what does the same without it: a governed run against a shell script on the same
// image, repository and remote. Everything is a ratio of two things in one run on one machine. cmd/bench prints all of it.
package bench
