package main

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness"
	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/profiles"
)

func page(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("../../docs/cli.md")
	require.NoError(t, err)
	return string(data)
}

func parser(t *testing.T) *kong.Kong {
	t.Helper()
	p, err := newParser(&grammar{}, streams{})
	require.NoError(t, err)
	return p
}

func TestPageListsExactlyTheCommandsThereAre(t *testing.T) {
	t.Parallel()
	var listed, there []string
	for _, m := range regexp.MustCompile("(?m)^\\| `harness ([a-z ]+)` \\|").FindAllStringSubmatch(page(t), -1) {
		listed = append(listed, m[1])
	}
	for _, leaf := range parser(t).Model.Leaves(false) {
		there = append(there, strings.TrimPrefix(leaf.FullPath(), "harness "))
	}
	require.ElementsMatch(t, there, listed)
}

func TestPageListsExactlyTheExitCodesThereAre(t *testing.T) {
	t.Parallel()
	_, section, found := strings.Cut(page(t), "## Exit codes\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	rows := regexp.MustCompile(`(?m)^\| (\d+) \| (.+) \|$`).FindAllStringSubmatch(section, -1)
	require.Len(t, rows, len(exitCodes()))
	for i, e := range exitCodes() {
		require.Equal(t, []string{fmt.Sprint(int(e.code)), e.meaning}, rows[i][1:])
	}
}

func TestPageNamesEveryFieldOfJSON(t *testing.T) {
	t.Parallel()
	text := page(t)
	for _, document := range []any{
		runView{},
		leaseView{},
		cancelView{},
		waitView{},
		emitted{},
		preview{},
		runDetail{},
		factView{},
		commitView{},
		deliveryView{},
		listedDelivery{},
		reconciledView{},
		logView{},
		publishedView{},
		markView{},
		profileView{},
		definitionView{},
		holdView{},
		appliedView{},
		definitionDetail{},
		nextView{},
		historyView{},
		revisionView{},
		tickView{},
		tickedView{},
		digestView{},
		publishView{},
		readinessView{},
		profiles.Link{},
		evidenceView{},
		verification{},
		evidence.Check{},
		controlView{},
		doctorView{},
		harness.Check{},
		versionView{},
	} {
		kind := reflect.TypeOf(document)
		for i := range kind.NumField() {
			name, _, _ := strings.Cut(kind.Field(i).Tag.Get("json"), ",")
			if kind.Field(i).IsExported() {
				require.Contains(t, text, "`"+name+"`", "%s.%s", kind, kind.Field(i).Name)
			}
		}
	}
}

func TestEveryCommandHasHelpWithAnExample(t *testing.T) {
	t.Parallel()
	for _, leaf := range parser(t).Model.Leaves(false) {
		require.NotEmpty(t, leaf.Help, leaf.FullPath())
		require.Contains(t, leaf.Detail, "\n    harness ", leaf.FullPath())
		for _, flag := range leaf.Flags {
			require.NotEmpty(t, flag.Help, "%s --%s", leaf.FullPath(), flag.Name)
		}
	}
}
