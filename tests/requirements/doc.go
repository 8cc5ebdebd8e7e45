// Package requirements ties docs/requirements.md to the tests that show each line of it.
//
// A test claims what it shows in a comment on it or inside it: `// A22, A43`, a line that begins with the ids; `(A22)` in a
// sentence; or `… . A22`, the ids as the last sentence of a line. Three commands stand on that:
//
//   - cmd/gen writes the page's last column from the claims, so that it cannot drift;
//   - cmd/testlog turns `go test -json` into the usual lines of `go test` and keeps the JSON;
//   - cmd/check compares the page with the sources and with a kept result: a named test that does not exist, did not run,
//     was skipped or failed is a fault, and so is a requirement that is not on the page.
//
// It imports nothing of the product.
package requirements
