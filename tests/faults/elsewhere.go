package faults

// Other is a fault that is not made boundary by boundary, and the tests that make it.
type Other struct {
	What  string
	Why   string // it is no kind of the matrix
	Tests []string
}

// Elsewhere are all of them. Each is a fault of the whole deployment or of the time that passes, and a cell is one run.
func Elsewhere() []Other {
	return []Other{
		{
			"Postgres ended at once (`pg_ctl stop -m immediate`) and started again, the engine ended and started again, workers replaced one by one",
			"the cells share one Postgres and one engine, and what matters is many runs under way; connections that end and a database that is away are kinds of the matrix",
			[]string{"tests/robustness.TestRestartsLoseNothingAndARollingOneFailsNoRun", "tests/lease.TestAVersionIsReplacedUnderLoadAndNoRunFails"},
		},
		{
			"the disk of the database or of the worker is full, for a moment or for longer than a lease lasts",
			"each needs a disk of its own, and it matters only where something is stored",
			[]string{
				"tests/faults.TestAFullDiskOfTheDatabaseLosesAndDoublesNothing", "tests/faults.TestAFullDiskOfTheWorkerEndsTheRunAndSaysSo",
				"repotx.TestAFullDiskIsSaidToBeOneAndLeavesNothing",
			},
		},
		{
			"an older copy of the database is restored",
			"everything after the copy is gone, and an operator has to adopt it",
			[]string{"tests/lease.TestARestoredDumpStopsAllClaimsUntilItIsAdoptedAndNothingLandsTwice"},
		},
		{
			"the clock of a worker is wrong, or set while it works",
			"nothing that is decided or recorded asks for it, which tests/architecture checks; what the database says is followed when its clock is set",
			[]string{
				"queue.TestLeaseEndsByTheDatabasesClockWhateverTheWorkersSays", "queue.TestTimeOfDayIsTheDatabases",
				"tests/pins.TestReadinessExpiresByTheDatabasesClock",
			},
		},
		{
			"a push that is applied only after the run was taken over",
			"the worker has to be stopped as well",
			[]string{"tests/lease.TestAPushThatArrivesAfterTheTakeoverIsRefusedByTheRemote"},
		},
		{
			"several faults at once, at random times",
			"there are too many combinations to list",
			[]string{"tests/robustness.TestNoFaultLosesDoublesOrLeaksAnything"},
		},
	}
}
