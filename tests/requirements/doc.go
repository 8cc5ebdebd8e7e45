// Package requirements ties docs/requirements.md to the tests that show each line of it.
//
// A test claims what it shows in a comment of its own: `// A22, A43`, as a line that begins with the ids, or `(A22)` in a
// sentence, on the test function or inside it. Three commands stand on that:
//
//   - cmd/gen writes the page's last column from the claims, so that it cannot drift;
//   - cmd/testlog turns `go test -json` into the usual lines of `go test` and keeps the JSON;
//   - cmd/check compares the page with the sources and with a kept result: a named test that does not exist, did not run,
//     was skipped or failed is a fault, and so is a requirement that is not on the page.
//
// It imports nothing of the product.
package requirements
