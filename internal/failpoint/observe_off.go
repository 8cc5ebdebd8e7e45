//go:build !failpoint

package failpoint

// Operation is one operation on a lease, as a test's history has it: nothing, in this build.
type Operation struct{}

// Begin is called before an operation is asked of the database.
func Begin(_, _, _ string, _ int64) Operation { return Operation{} }

// End is called with its answer.
func (Operation) End(int64, error) {}
