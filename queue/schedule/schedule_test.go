package schedule_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/rein-aharness/harness/queue/schedule"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func parse(t require.TestingT, s schedule.Spec) *schedule.Schedule {
	p, err := s.Parse()
	require.NoError(t, err)
	return p
}

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return t
}

// CASES 44
func TestWhatCanBeMisreadOrIsNeverDueIsRefused(t *testing.T) {
	t.Parallel()
	for text, c := range map[string]struct {
		spec schedule.Spec
		want string
	}{
		"nothing":               {schedule.Spec{}, "one of cron and every"},
		"both":                  {schedule.Spec{Cron: "* * * * *", Every: "1h"}, "one of cron and every"},
		"a zone":                {schedule.Spec{Cron: "TZ=Europe/Berlin 0 1 * * *"}, "all times are UTC"},
		"a zone alone":          {schedule.Spec{Cron: "TZ="}, "all times are UTC"},
		"another zone":          {schedule.Spec{Cron: "CRON_TZ=UTC 0 1 * * *"}, "all times are UTC"},
		"@daily":                {schedule.Spec{Cron: "@daily"}, "words like @daily"},
		"@every":                {schedule.Spec{Cron: "@every 5m"}, "words like @daily"},
		"@reboot":               {schedule.Spec{Cron: "@reboot"}, "words like @daily"},
		"six fields":            {schedule.Spec{Cron: "0 0 1 * * *"}, "there are 6"},
		"four fields":           {schedule.Spec{Cron: "0 1 * *"}, "there are 4"},
		"two spaces":            {schedule.Spec{Cron: "0  1 * * *"}, "one space"},
		"a line break":          {schedule.Spec{Cron: "0 1 * * *\n"}, "is not a field"},
		"a question mark":       {schedule.Spec{Cron: "0 1 ? * *"}, "is not a field"},
		"a last day":            {schedule.Spec{Cron: "0 1 L * *"}, "is not a field"},
		"a star in a list":      {schedule.Spec{Cron: "0 1 *,3 * 1"}, "is not a field"},
		"a negative value":      {schedule.Spec{Cron: "-1 1 * * *"}, "is not a field"},
		"minute 60":             {schedule.Spec{Cron: "60 1 * * *"}, "above maximum"},
		"hour 24":               {schedule.Spec{Cron: "0 24 * * *"}, "above maximum"},
		"day 0":                 {schedule.Spec{Cron: "0 1 0 * *"}, "below minimum"},
		"weekday 7":             {schedule.Spec{Cron: "0 1 * * 7"}, "above maximum"},
		"a name that is none":   {schedule.Spec{Cron: "0 1 * * FOO"}, "failed to parse"},
		"a range upside down":   {schedule.Spec{Cron: "0 5-3 * * *"}, "beyond end of range"},
		"a step of 0":           {schedule.Spec{Cron: "*/0 * * * *"}, "step"},
		"30 February":           {schedule.Spec{Cron: "0 0 30 2 *"}, "no such day"},
		"31 April":              {schedule.Spec{Cron: "0 0 31 4,6,9,11 *"}, "no such day"},
		"an interval of 0":      {schedule.Spec{Every: "0s"}, "1ms to 366 days"},
		"a negative interval":   {schedule.Spec{Every: "-5m"}, "1ms to 366 days"},
		"an endless interval":   {schedule.Spec{Every: "9000h"}, "1ms to 366 days"},
		"a fraction of a ms":    {schedule.Spec{Every: "1500us"}, "whole milliseconds"},
		"days":                  {schedule.Spec{Every: "1d"}, "a duration like"},
		"an unknown policy":     {schedule.Spec{Every: "1h", Missed: "some"}, "none of skip, latest, all"},
		"a bound for latest":    {schedule.Spec{Every: "1h", MissedBound: 3}, "belongs to missed: all"},
		"a bound that is large": {schedule.Spec{Every: "1h", Missed: "all", MissedBound: 1001}, "1 to 1000"},
		"a grace for all":       {schedule.Spec{Every: "1h", Missed: "all", Grace: "1m"}, "belongs to missed: skip"},
		"a grace that is none":  {schedule.Spec{Every: "1h", Missed: "skip", Grace: "soon"}, "a duration like"},
	} {
		_, err := c.spec.Parse()
		require.ErrorContains(t, err, c.want, text)
	}
}

func TestNextIsTheFirstDueTimeAfter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		spec        schedule.Spec
		after, next string
	}{
		{schedule.Spec{Cron: "30 1 * * *"}, "2026-03-29T01:29:59Z", "2026-03-29T01:30:00Z"},
		{schedule.Spec{Cron: "30 1 * * *"}, "2026-03-29T01:30:00Z", "2026-03-30T01:30:00Z"},
		// Asked in a zone whose clock goes back on that night, it is still once.
		{schedule.Spec{Cron: "30 1 * * *"}, "2026-10-25T02:31:00+01:00", "2026-10-26T01:30:00Z"},
		{schedule.Spec{Cron: "0 0 29 2 *"}, "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"},
		{schedule.Spec{Cron: "0 0 1,15 * FRI"}, "2026-01-02T00:00:00Z", "2026-01-09T00:00:00Z"},
		{schedule.Spec{Cron: "0 0 1,15 * FRI"}, "2026-01-09T00:00:00Z", "2026-01-15T00:00:00Z"},
		{schedule.Spec{Cron: "*/15 9-17 * jan-mar mon-fri"}, "2026-03-31T17:45:00Z", "2027-01-01T09:00:00Z"},
		{schedule.Spec{Every: "15m"}, "2026-01-01T00:00:00.001Z", "2026-01-01T00:15:00Z"},
		{schedule.Spec{Every: "15m"}, "2026-01-01T00:15:00Z", "2026-01-01T00:30:00Z"},
		{schedule.Spec{Every: "7h"}, "2026-01-02T00:00:00Z", "2026-01-02T04:00:00Z"},
		{schedule.Spec{Every: "1h"}, "1969-12-31T22:30:00Z", "1969-12-31T23:00:00Z"},
		{schedule.Spec{Every: "1h"}, "1969-12-31T23:00:00Z", "1970-01-01T00:00:00Z"},
	} {
		next := parse(t, c.spec).Next(at(c.after))
		require.True(t, at(c.next).Equal(next), "%+v after %s is %s", c.spec, c.after, next)
		require.Equal(t, time.UTC, next.Location())
	}
}

func TestMissedPolicySaysWhatCounts(t *testing.T) {
	t.Parallel()
	const since = "2026-01-01T00:00:00Z"
	for name, c := range map[string]struct {
		spec   schedule.Spec
		now    string
		times  []string
		missed int
	}{
		"nothing due":               {schedule.Spec{Every: "1h"}, "2026-01-01T00:59:59Z", nil, 0},
		"one due":                   {schedule.Spec{Every: "1h"}, "2026-01-01T01:00:00Z", []string{"2026-01-01T01:00:00Z"}, 0},
		"latest is the default":     {schedule.Spec{Every: "1h"}, "2026-01-01T05:59:00Z", []string{"2026-01-01T05:00:00Z"}, 4},
		"latest, however late":      {schedule.Spec{Cron: "0 3 2 1 *"}, "2026-12-31T00:00:00Z", []string{"2026-01-02T03:00:00Z"}, 0},
		"skip, within its grace":    {schedule.Spec{Every: "1h", Missed: "skip"}, "2026-01-01T05:10:00Z", []string{"2026-01-01T05:00:00Z"}, 4},
		"skip, after its grace":     {schedule.Spec{Every: "1h", Missed: "skip"}, "2026-01-01T05:10:01Z", nil, 5},
		"skip, with its own grace":  {schedule.Spec{Every: "1h", Missed: "skip", Grace: "20m"}, "2026-01-01T05:20:00Z", []string{"2026-01-01T05:00:00Z"}, 4},
		"all, within the bound":     {schedule.Spec{Every: "1h", Missed: "all", MissedBound: 2}, "2026-01-01T02:30:00Z", []string{"2026-01-01T01:00:00Z", "2026-01-01T02:00:00Z"}, 0},
		"all, the last ones beyond": {schedule.Spec{Every: "1h", Missed: "all", MissedBound: 2}, "2026-01-01T05:00:00Z", []string{"2026-01-01T04:00:00Z", "2026-01-01T05:00:00Z"}, 3},
		"a clock that went back":    {schedule.Spec{Every: "1h", Missed: "all"}, "2025-12-31T00:00:00Z", nil, 0},
		"a clock a century ahead":   {schedule.Spec{Every: "24h"}, "2126-01-01T00:00:00Z", []string{"2126-01-01T00:00:00Z"}, 365},
	} {
		times, missed := parse(t, c.spec).Due(at(since), at(c.now))
		var got []string
		for _, d := range times {
			got = append(got, d.Format(time.RFC3339))
		}
		require.Equal(t, c.times, got, name)
		require.Equal(t, c.missed, missed, name)
	}
}

// CASES 6, 44: whatever the clock does between two looks, what is decided only rises, and each due time is decided once.
func TestClockThatStepsLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		spec := rapid.SampledFrom([]schedule.Spec{
			{Every: "1m", Missed: "all", MissedBound: 1000},
			{Every: "7m", Missed: "all", MissedBound: 1000},
			{Cron: "*/5 * * * *", Missed: "all", MissedBound: 1000},
			{Cron: "0,30 8-17 1-15 * 1-5", Missed: "all", MissedBound: 1000},
		}).Draw(t, "spec")
		plan := parse(t, spec)
		start := at("2026-01-05T07:00:00Z")
		clock, decided := start, start
		var got []time.Time
		for range rapid.IntRange(1, 30).Draw(t, "looks") {
			clock = clock.Add(time.Duration(rapid.IntRange(-90, 120).Draw(t, "step")) * time.Minute / 2)
			times, missed := plan.Due(decided, clock)
			require.Zero(t, missed)
			got = append(got, times...)
			if clock.After(decided) {
				decided = clock
			}
		}
		var want []time.Time
		for d := plan.Next(start); !d.After(decided); d = plan.Next(d) {
			want = append(want, d)
		}
		require.Equal(t, want, got)
	})
}

// bounds of the five fields.
var bounds = [5][2]int{{0, 59}, {0, 23}, {1, 31}, {1, 12}, {0, 6}}

// TestCronAgreesWithACountOfMinutes holds the parser against the plain meaning of a line, minute by minute.
func TestCronAgreesWithACountOfMinutes(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var fields []string
		for _, b := range bounds {
			fields = append(fields, randomField(random, b))
		}
		line := strings.Join(fields, " ")
		plan, err := schedule.Spec{Cron: line}.Parse()
		if err != nil {
			require.ErrorContains(t, err, "no such day", line)
			continue
		}
		after := at("2026-01-01T00:00:00Z").Add(time.Duration(random.IntN(2*365*24*60)) * time.Minute)
		want := after.Add(time.Minute)
		for limit := after.AddDate(1, 0, 0); !matches(fields, want) && want.Before(limit); {
			want = want.Add(time.Minute)
		}
		if matches(fields, want) {
			require.Equal(t, want, plan.Next(after), "%s after %s", line, after)
		}
	}
}

func randomField(r *rand.Rand, b [2]int) string {
	value := func(from int) int { return from + r.IntN(b[1]-from+1) }
	item := func() string {
		low := value(b[0])
		switch r.IntN(3) {
		case 0:
			return strconv.Itoa(low)
		case 1:
			return fmt.Sprintf("%d-%d", low, value(low))
		default:
			return fmt.Sprintf("%d-%d/%d", low, value(low), 1+r.IntN(5))
		}
	}
	switch r.IntN(4) {
	case 0:
		return "*"
	case 1:
		return "*/" + strconv.Itoa(2+r.IntN(9))
	default:
		text := item()
		for r.IntN(3) == 0 {
			text += "," + item()
		}
		return text
	}
}

func matches(fields []string, t time.Time) bool {
	in := func(i, v int) bool {
		for item := range strings.SplitSeq(fields[i], ",") {
			span, by, stepped := strings.Cut(item, "/")
			low, high, step := bounds[i][0], bounds[i][1], 1
			if span != "*" {
				from, to, ranged := strings.Cut(span, "-")
				low, _ = strconv.Atoi(from)
				if high = low; ranged {
					high, _ = strconv.Atoi(to)
				}
			}
			if stepped {
				step, _ = strconv.Atoi(by)
			}
			if v >= low && v <= high && (v-low)%step == 0 {
				return true
			}
		}
		return false
	}
	if !in(0, t.Minute()) || !in(1, t.Hour()) || !in(3, int(t.Month())) {
		return false
	}
	day, weekday := in(2, t.Day()), in(4, int(t.Weekday()))
	if fields[2] == "*" || fields[4] == "*" {
		return day && weekday
	}
	return day || weekday
}

func FuzzCron(f *testing.F) {
	for _, line := range []string{"* * * * *", "0 1 * * *", "TZ=", "CRON_TZ=X 1", "@every 1s", "*/7 1-5/2,9 L ? 7", "0 0 30 2 *", "\x00 * * * *"} {
		f.Add(line, int64(1767225600))
	}
	f.Fuzz(func(t *testing.T, line string, unix int64) {
		plan, err := schedule.Spec{Cron: line}.Parse()
		if err != nil {
			return
		}
		after := time.Unix(unix%(1<<33), 0).UTC() // some centuries to both sides
		next := plan.Next(after)
		if !next.IsZero() && (!next.After(after) || next.Second() != 0 || next.Location() != time.UTC) {
			t.Fatalf("%q after %s is %s", line, after, next)
		}
	})
}
