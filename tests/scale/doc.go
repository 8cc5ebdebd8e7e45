// Package scale shows that many workers on many repositories land every run once, with nothing left behind. The number of
// repositories is HARNESS_SCALE_REPOSITORIES, 4 when it is not set; `make scale` sets 20, which makes 220 runs: one on each
// of 200 branches, and one more on a branch of each repository.
package scale
