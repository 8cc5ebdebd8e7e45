// Package validate judges the record of a deployment under faults: against a model of the lease of each run and one of the refs of each
// remote, by porcupine, and against what must hold in the end. It knows nothing of how the record came about, imports only the
// record's types, and names every violation, so that a forged record shows that each is seen.
package validate
