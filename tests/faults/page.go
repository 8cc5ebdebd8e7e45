package faults

import (
	"fmt"
	"strings"
)

// PagePath is where the page lies in the repository.
const PagePath = "docs/faults.md"

// Page writes the page from the results at one commit. A page that does not have all cells says so at its top.
func Page(results map[string]Result, commit string) string {
	var page, rest strings.Builder
	var run, held, of int
	left := map[string][]string{}
	for _, kind := range Kinds() {
		fmt.Fprintf(&rest, "\n## %s\n\n%s.\n", kind.Name, kind.What)
		header := false
		for _, c := range Cells() {
			if c.Kind != kind {
				continue
			}
			if why := c.Left(); why != "" {
				left[why] = append(left[why], c.Name())
				continue
			}
			of++
			if !header {
				header = true
				rest.WriteString("\n| boundary | expected | came | commits | containers | tokens | evidence | seconds | |\n|---|---|---|---|---|---|---|---|---|\n")
			}
			r, was := results[c.Name()]
			if !was {
				fmt.Fprintf(&rest, "| %s: %s | %s | | | | | | | not run yet |\n", c.Point.Name, c.Point.What, c.Expected())
				continue
			}
			run++
			verdict, wrong := "holds", r.Wrong(c)
			if len(wrong) > 0 {
				verdict = "**fails**: " + strings.NewReplacer("|", "\\|", "\n", " ").Replace(strings.Join(wrong, "; "))
			} else {
				held++
			}
			fmt.Fprintf(&rest, "| %s: %s | %s | %s | %d | %d | %d | %s | %.1f | %s |\n", c.Point.Name, c.Point.What, c.Expected(), r.Outcome,
				r.Commits, r.Containers, r.Tokens, verifies(r.Verified), r.Seconds, verdict)
		}
		writeNotes(&rest, kind)
	}
	fmt.Fprintf(&page, "# Faults at every boundary\n\nWritten by `make faults` from a run at commit %s; not by hand. ", commit)
	if run < of {
		fmt.Fprintf(&page, "**This page is partial: %d of %d cells were run.** ", run, of)
	}
	fmt.Fprintf(&page, `%d cells were run, %d hold, %d fail.

One cell is one run of a deployment of its own: a lease of %s, a worker as a process, real Postgres, Vault, engine and git. The worker is
held exactly at the boundary until the fault has begun. Then the run must end as expected, with one commit on the branch if its
effect is confirmed and none otherwise, counted by stock git after every worker has ended; its evidence must verify offline and at the
remote; no container and no live token of the run may be left.
`, run, held, run-held, TTL)
	page.WriteString(rest.String())
	page.WriteString("\n## Not run\n\n")
	for _, kind := range Kinds() { // in a fixed order
		for _, p := range Points() {
			why := Cell{p, kind}.Left()
			if cells := left[why]; why != "" && len(cells) > 0 {
				fmt.Fprintf(&page, "- %d cells: %s. %s\n", len(cells), why, strings.Join(cells, ", "))
				delete(left, why)
			}
		}
	}
	page.WriteString("\n## Elsewhere\n\nFaults that other tests make, and why they are no cells:\n\n")
	for _, o := range Elsewhere() {
		fmt.Fprintf(&page, "- %s: %s. `%s`\n", o.What, o.Why, strings.Join(o.Tests, "`, `"))
	}
	return page.String()
}

func verifies(v bool) string {
	if v {
		return "verifies"
	}
	return "does not verify"
}

// writeNotes says why some cells of a kind have several outcomes, each reason once.
func writeNotes(page *strings.Builder, kind Kind) {
	said := map[string]bool{}
	for _, p := range Points() {
		c := Cell{p, kind}
		why := c.Expected().Why
		if why == "" || said[why] || c.Left() != "" {
			continue
		}
		said[why] = true
		fmt.Fprintf(page, "\n%s: %s.\n", p.Name, why)
	}
}
