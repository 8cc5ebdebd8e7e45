// Package history holds what was recorded of a deployment under faults, as plain data that can be kept as JSON and checked again:
// operations on leases as the workers called them, transactions of refs as the git server took them, changes of run rows as the
// database saw them, and what was found in the end. It reads the records, and imports nothing of the product but the names of
// errors, trailers and states.
package history
