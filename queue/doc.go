// Package queue is the memory of all runs: what was asked for, who may act for a run now, what became of it. Only this package speaks
// SQL to the run tables.
//
// It may import evidence, sandbox, repotx, rein, rein/credential, profiles and internal packages; the root package and the command
// build on it.
//
// It promises:
//   - a trigger key gives one run, however many emit it at once, and an operation key means one change for ever;
//   - a run has at most one lease, its epochs only rise, and every write of a lease holder locks the run's row and is refused when
//     the epoch, the owner or the time is no longer the holder's, by the database's clock;
//   - a run that was started is never claimed again: it is taken over and settled;
//   - two runs never work on one repository ref at once, and no more on one repository than their definitions allow;
//   - a due time of an applied definition is decided once, by the database's clock, and gives one run or a recorded refusal;
//   - a final state, the evidence, the signed statement and the deliveries are written in one transaction, or none of it is;
//   - no River job is the only memory of a run or a delivery: the tick finds what has no live job.
//
// River dispatches. It has no fence of its own, so it decides nothing here: its rows are bookkeeping.
package queue
