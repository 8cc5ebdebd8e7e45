// Package canary plants secret values in whole deployments and looks for them wherever they do not belong: in every table, the
// workers' logs, the session log, what the commands print and export, the remote, the caches, what the engine shows of a container,
// the arguments and environments of processes, and the dump of a worker that crashes. The workers are processes of the real binary.
//
// The forms that are searched for are written out here and not taken from the product. That the search finds a value in each place
// and each form is shown by a test of its own.
package canary
