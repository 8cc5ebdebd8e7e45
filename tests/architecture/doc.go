// Package architecture holds the shape of the code: which package may import which, which libraries belong to whom, and
// what no file may contain. It reads the sources as they are, whatever build tags they carry, and needs neither the go
// command nor the network. It imports nothing of the product.
//
// Rules lists every rule. Each is a plain function over a Tree, and each is shown in the tests to fail on an injected
// violation.
package architecture
