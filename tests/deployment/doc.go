// Package deployment sets up a whole deployment of the harness on the local stack for tests: a database of its own, a
// configuration file, a trust file, a published profile that a readiness check has found ready, and workers, in this process or
// as processes of the real binary. It may import everything of the product.
package deployment
