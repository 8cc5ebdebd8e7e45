// Package requirements ties docs/requirements.md and docs/cases.md to the tests that show each line of them.
//
// A test claims what it shows in a comment on it or inside it: `// A22, A43, CASES 7, 11`, a line that begins with the ids;
// `(A22)` in a sentence; or `… . A22`, the ids as the last sentence of a line. Three commands stand on that:
//
//   - cmd/gen writes the last column of both pages from the claims, so that it cannot drift;
//   - cmd/testlog turns `go test -json` into the usual lines of `go test` and keeps the JSON;
//   - cmd/check compares the pages with the sources and with a kept result: a named test that does not exist, did not run,
//     was skipped or failed is a fault, and so is a requirement or a case that is not on its page.
//
// It imports nothing of the product.
package requirements
