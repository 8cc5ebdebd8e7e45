// Package scale shows that many workers on many repositories land every run once, with nothing left behind: 220 runs, one on each
// of 200 branches, and one more on a branch of each repository.
package scale
