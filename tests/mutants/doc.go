// Package mutants puts faults into the code, one by one, and sees that the tests find them. Each mutant is a patch in testdata, and a
// row that says what is wrong with it, which test has to fail, and the invariant that the failing test has to name: a test that fails
// for another reason has not understood what is wrong.
//
// Run works on a copy of the tree, and takes minutes, on the stack; cmd/mutants is `make mutants`. The package's own tests are quick:
// every patch still applies, and every test and invariant that a row names is there.
package mutants
