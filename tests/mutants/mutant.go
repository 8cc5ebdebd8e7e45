package mutants

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Mutant is one fault and who has to find it.
type Mutant struct {
	Name      string // of its patch, without the extension
	Wrong     string // what the patched code does
	Package   string // of the test, as go test is told it
	Test      string // that fails, with its subtest as it is printed: TestA/b
	Invariant string // that the test says is broken
}

// All are the mutants, in the order of a run's life.
func All() []Mutant {
	return []Mutant{
		{
			Name: "epoch", Wrong: "a guarded write does not compare the epoch, so an earlier lease of the same process still writes",
			Package: "./queue", Test: "TestForeignAndStaleWritesChangeNothing",
			Invariant: "of a lease that was taken over changes nothing",
		},
		{
			Name: "rowlock", Wrong: "a guarded write reads the lease without locking the row, so a takeover comes between its look and its write",
			Package: "./queue", Test: "TestAWriteThatMeetsATakeoverIsRefused",
			Invariant: "a write that met a takeover has seen it",
		},
		{
			Name: "selffence", Wrong: "the holder trusts its lease until the database says otherwise",
			Package: "./queue", Test: "TestUnreachableDatabaseEndsTheWorkBeforeTheLeaseExpires",
			Invariant: "the holder stops while the database still thinks that it holds",
		},
		{
			Name: "completion", Wrong: "a run whose River job has completed is taken as done",
			Package: "./queue", Test: "TestACompletedJobDoesNotMeanThatItsRunIsOver",
			Invariant: "only the run's own row says that a run is over",
		},
		{
			Name: "adopted", Wrong: "the fence's value is the same in every epoch of a process, so a takeover finds the older epoch's open fence to be its own",
			Package: "./repotx", Test: "TestOpenFenceOfAnEarlierEpochIsNotAdopted",
			Invariant: "the open fence of an earlier epoch is never adopted",
		},
		{
			Name: "teardown", Wrong: "the session is torn down after the acceptance",
			Package: "./tests/e2e", Test: "TestGovernedRunLandsOneVerifiedCommit",
			Invariant: "the session is torn down before the acceptance begins",
		},
		{
			Name: "order", Wrong: "the push moves the branch before the fence",
			Package: "./repotx", Test: "TestSettlingRows/server_dies_between_the_two_ref_updates",
			Invariant: "the fence moves before the branch",
		},
		{
			Name: "refusal", Wrong: "a refusal by the remote is final, and nobody looks at what it has",
			Package: "./tests/lease", Test: "TestARefusalOfWhatHasLandedAlreadyIsSettledByTheRemote",
			Invariant: "a refusal decides nothing until the remote was looked at",
		},
		{
			Name: "retention", Wrong: "fences are deleted early: the retention's milliseconds are taken for microseconds",
			Package: "./queue", Test: "TestFenceIsDueOnceItsRetentionHasPassed",
			Invariant: "a fence stays for its whole retention",
		},
	}
}

// pattern is what go test is told to run.
func (m Mutant) pattern() string {
	var parts []string
	for part := range strings.SplitSeq(m.Test, "/") {
		parts = append(parts, "^"+regexp.QuoteMeta(part)+"$")
	}
	return strings.Join(parts, "/")
}

// Why a mutant was not caught.
var (
	ErrSurvived = errors.New("survived")
	ErrNotFair  = errors.New("says nothing") // a mutant that does not apply or build, and a test that fails without it
)

// sound judges the test's output without the patch.
func (m Mutant) sound(output string) error {
	if !strings.Contains(output, "--- PASS: "+m.Test+" (") {
		return fmt.Errorf("%w: %s does not pass without it", ErrNotFair, m.Test)
	}
	return nil
}

// caught judges the test's output with the patch.
func (m Mutant) caught(output string) error {
	switch {
	case !strings.Contains(output, "--- FAIL: "+m.Test+" ("):
		return fmt.Errorf("%w: %s does not fail", ErrSurvived, m.Test)
	case !strings.Contains(output, m.Invariant):
		return fmt.Errorf("%w: %s fails, but does not say %q", ErrSurvived, m.Test, m.Invariant)
	}
	return nil
}
