// Package docs holds the pages that the command line shows, from the files that readers find in the repository, so that there is
// one truth. It imports nothing of the harness.
package docs

import _ "embed" // for the pages

// Errors is errors.md: a section `### code` for each code that a person can meet.
//
//go:embed errors.md
var Errors string
