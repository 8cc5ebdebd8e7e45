package schedule

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

const maxCronBytes = 256

// field is what a field of a cron line may be. `*` stands alone or with a step: within a list it would make the list meaningless
// and, of the two fields of days, decide silently how they are joined.
var field = regexp.MustCompile(`^(\*(/[0-9]{1,2})?|` + item + `(,` + item + `)*)$`)

const (
	value = `([0-9]{1,2}|[A-Za-z]{3})`
	item  = value + `(-` + value + `)?(/[0-9]{1,2})?`
)

// parseCron reads a line of five fields: minute, hour, day of month, month, day of week (0 to 6, 0 is Sunday). When both fields of
// days restrict, either of them is enough. The line is checked before the library sees it, which takes a time zone in front, words
// that begin with @, and panics on some lines. (CASES 44)
func parseCron(line string) (func(time.Time) time.Time, error) {
	switch {
	case len(line) > maxCronBytes:
		return nil, fmt.Errorf("is longer than %d bytes", maxCronBytes)
	case strings.Contains(line, "TZ="):
		return nil, errors.New("a time zone cannot be set; all times are UTC")
	case strings.Contains(line, "@"):
		return nil, errors.New("words like @daily are not known; write the five fields, or use every")
	}
	fields := strings.Split(line, " ")
	if len(fields) != 5 {
		return nil, fmt.Errorf("five fields with one space between are needed (minute hour day month weekday), there are %d", len(fields))
	}
	for _, f := range fields {
		if !field.MatchString(f) {
			return nil, fmt.Errorf("%q is not a field: * or */n, or values, ranges a-b and steps a-b/n with commas between", f)
		}
	}
	parsed, err := cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow).Parse(line)
	if err != nil {
		return nil, err
	}
	return func(after time.Time) time.Time { return parsed.Next(after.UTC()) }, nil
}
