// Package images builds the sandbox images of the demo and the tests: deterministic archives that `docker load`
// takes, without any file of a distribution.
//
// An image is one layer: a user 1000, the folders that the sandbox mounts over, and one static program built with
// fixed flags. The same sources and Go version give the same image id on every machine. The package imports nothing of
// the product.
package images
