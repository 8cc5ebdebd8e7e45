package schedule

import (
	"errors"
	"fmt"
	"time"
)

// Missed says which due times still count when several have passed since somebody last looked.
type Missed string

// The policies.
const (
	MissedSkip   Missed = "skip"   // the last one, unless it is older than the grace
	MissedLatest Missed = "latest" // the last one, however old
	MissedAll    Missed = "all"    // all, up to a bound; beyond it the last ones
)

// Spec is a schedule as a definition writes it. Exactly one of Cron and Every is set.
type Spec struct {
	// Cron is a line of five fields in UTC.
	Cron string `json:"cron,omitzero"`
	// Every is a fixed interval, as Go writes durations: 15m. Due are its multiples since 1970-01-01T00:00:00Z, so that neither a
	// restart nor a change of anything else moves them. At most 366 days.
	Every string `json:"every,omitzero"`
	// Missed is the policy for missed due times. Default latest.
	Missed Missed `json:"missed,omitzero"`
	// MissedBound is how many due times MissedAll lets count at once: 1 to 1000, default 10. Only with MissedAll.
	MissedBound int `json:"missed_bound,omitzero"`
	// Grace is how late a due time still counts under MissedSkip: default 10m, at most 366 days. Only with MissedSkip.
	Grace string `json:"grace,omitzero"`
}

// Defaults and bounds of a Spec.
const (
	defaultBound = 10
	maxBound     = 1000
	defaultGrace = 10 * time.Minute
	year         = 366 * 24 * time.Hour
)

// Schedule is a parsed Spec.
type Schedule struct {
	next     func(after time.Time) time.Time
	interval time.Duration // of a fixed interval; 0 for a cron line
	missed   Missed
	bound    int
	grace    time.Duration
}

// Parse reads the spec. What is never due is refused too.
func (s Spec) Parse() (*Schedule, error) {
	parsed := &Schedule{missed: s.Missed, bound: s.MissedBound, grace: defaultGrace}
	if err := parsed.when(s); err != nil {
		return nil, err
	}
	if parsed.Next(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return nil, errors.New("cron: there is no such day")
	}
	switch s.Missed {
	case "":
		parsed.missed = MissedLatest
	case MissedSkip, MissedLatest, MissedAll:
	default:
		return nil, fmt.Errorf("missed: %q is none of skip, latest, all", s.Missed)
	}
	switch {
	case s.MissedBound != 0 && s.Missed != MissedAll:
		return nil, errors.New("missed_bound: belongs to missed: all")
	case s.MissedBound < 0 || s.MissedBound > maxBound:
		return nil, fmt.Errorf("missed_bound: 1 to %d", maxBound)
	case s.MissedBound == 0:
		parsed.bound = defaultBound
	}
	if s.Grace == "" {
		return parsed, nil
	}
	if s.Missed != MissedSkip {
		return nil, errors.New("grace: belongs to missed: skip")
	}
	grace, err := duration(s.Grace)
	if err != nil {
		return nil, fmt.Errorf("grace: %w", err)
	}
	parsed.grace = grace
	return parsed, nil
}

func (p *Schedule) when(s Spec) (err error) {
	if (s.Cron == "") == (s.Every == "") {
		return errors.New("one of cron and every is needed, and not both")
	}
	if s.Cron != "" {
		if p.next, err = parseCron(s.Cron); err != nil {
			return fmt.Errorf("cron: %w", err)
		}
		return nil
	}
	if p.interval, err = duration(s.Every); err != nil {
		return fmt.Errorf("every: %w", err)
	}
	p.next = func(after time.Time) time.Time {
		step := p.interval.Milliseconds()
		n := after.UnixMilli() / step
		if after.UnixMilli() < n*step { // division rounds towards 1970, also before it
			n--
		}
		return time.UnixMilli((n + 1) * step).UTC()
	}
	return nil
}

// duration reads a duration of whole milliseconds, of at most a year.
func duration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return 0, errors.New("a duration like 90s, 15m or 24h is needed")
	case d <= 0 || d > year || d%time.Millisecond != 0:
		return 0, errors.New("a duration of 1ms to 366 days is needed, in whole milliseconds")
	}
	return d, nil
}

// Interval is the fixed interval, and 0 for a cron line, which is due once a minute at most.
func (p *Schedule) Interval() time.Duration { return p.interval }

// Next is the first due time after a time, or the zero time when there is none within five years.
func (p *Schedule) Next(after time.Time) time.Time { return p.next(after) }

// Due gives the due times after since, up to and including now, that count, in their order, and how many do not. A now that is not
// after since, as when a clock was set back, has none. Of more than a year only the last year is looked at.
func (p *Schedule) Due(since, now time.Time) (times []time.Time, missed int) {
	if earliest := now.Add(-year); since.Before(earliest) {
		since = earliest
	}
	keep := 1
	if p.missed == MissedAll {
		keep = p.bound
	}
	for t := p.Next(since); !t.IsZero() && !t.After(now); t = p.Next(t) {
		if times = append(times, t); len(times) > keep {
			times, missed = times[1:], missed+1
		}
	}
	if p.missed == MissedSkip && len(times) == 1 && now.Sub(times[0]) > p.grace {
		return nil, missed + 1
	}
	return times, missed
}
