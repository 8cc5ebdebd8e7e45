package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf16"

	"github.com/rein-aharness/harness/evidence"
)

// maxCell bounds what is shown of one value.
const maxCell = 512

// clean makes a value from outside safe to show. Its backslashes are shown as they are: the terminal has no use for them.
func clean(s string, limit int) string {
	return strings.ReplaceAll(evidence.Clean(s, limit), `\\`, `\`)
}

// table prints rows of cells in columns. Every cell is made safe to show.
type table struct{ w *tabwriter.Writer }

func newTable(w io.Writer) *table { return &table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)} }

func (t *table) row(cells ...string) {
	for i, cell := range cells {
		cells[i] = clean(cell, maxCell)
	}
	_, _ = t.w.Write([]byte(strings.Join(cells, "\t") + "\n")) // the first error stays, and flush returns it
}

// field prints a name and its value, unless there is no value.
func (t *table) field(name, value string) {
	if value != "" {
		t.row("  "+name, value)
	}
}

func (t *table) flush() error {
	if err := t.w.Flush(); err != nil {
		return as(codeOutput, fmt.Errorf("write the output: %w", err))
	}
	return nil
}

// printf writes to standard output. What comes from outside must have been cleaned.
func (a *app) printf(format string, args ...any) error {
	if _, err := fmt.Fprintf(a.out, format, args...); err != nil {
		return as(codeOutput, fmt.Errorf("write the output: %w", err))
	}
	return nil
}

// printJSON writes v to standard output, indented. Characters that do not show themselves are escaped, also those that JSON would
// allow as they are.
func (a *app) printJSON(v any) error { return a.encode(v, "  ") }

// printLine writes v to standard output as one line of JSON.
func (a *app) printLine(v any) error { return a.encode(v, "") }

func (a *app) encode(v any, indent string) error {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	if err := encoder.Encode(v); err != nil {
		return fmt.Errorf("encode the output: %w", err)
	}
	return a.printf("%s", escapeJSON(b.String()))
}

// escapeJSON escapes what does not show itself in a JSON document. Such characters can only stand inside its strings.
func escapeJSON(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\n' || unicode.IsPrint(r) && evidence.Clean(string(r), utf8Max) == string(r) || r == '\\':
			b.WriteRune(r)
		default:
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, `\u%04x`, unit)
			}
		}
	}
	return b.String()
}

const utf8Max = 4

// at writes a time in UTC to the second; the zero time and nil are empty.
func at(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05Z")
}

func atOr(t *time.Time) string {
	if t == nil {
		return ""
	}
	return at(*t)
}

// stamp is a time as JSON output has it: evidence's form, or null.
func stamp(t *time.Time) *string {
	if t == nil || t.IsZero() {
		return nil
	}
	s := evidence.FormatTime(*t)
	return &s
}

// seconds writes a duration for people.
func seconds(d time.Duration) string { return fmt.Sprintf("%.1fs", d.Seconds()) }
