// Package schedule says when something is due: by a cron line or at fixed intervals, always in UTC, and which of the times that
// passed while nobody looked still count.
//
// It may import nothing of this module; queue builds on it.
//
// It promises:
//   - what is due depends on the two times it is given and on nothing else: no clock is read, nothing is remembered;
//   - between two times every due time counts once or is missed once, however the span is divided;
//   - what cannot be read in one way only, or is never due, is refused when it is parsed.
package schedule
