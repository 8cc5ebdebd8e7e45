package harness

// Part is one of the parts that a harness stands on.
type Part string

// The parts.
const (
	PartDatabase Part = "the database"
	PartVault    Part = "Vault"
	PartGit      Part = "the git cache"
	PartEngine   Part = "the Docker engine"
)

// PartError says which part could not be opened. The cause is in its tree.
type PartError struct {
	Part Part
	Err  error
}

func (e *PartError) Error() string { return "open " + string(e.Part) + ": " + e.Err.Error() }
func (e *PartError) Unwrap() error { return e.Err }
