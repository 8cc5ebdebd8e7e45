package architecture

import (
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

const repository = "../.."

func TestTheRepositoryHoldsEveryRule(t *testing.T) {
	t.Parallel()
	tree, err := Load(os.DirFS(repository))
	require.NoError(t, err)
	require.Equal(t, "github.com/rein-aharness/harness", tree.Module)
	for _, rule := range Rules() {
		t.Run(rule.Name, func(t *testing.T) {
			t.Parallel()
			for _, v := range rule.Check(tree) {
				t.Error(v)
			}
		})
	}
}

func TestEveryDirectDependencyHasALine(t *testing.T) {
	t.Parallel()
	tree, err := Load(os.DirFS(repository))
	require.NoError(t, err)
	page, err := os.ReadFile(repository + "/" + DependenciesPage)
	require.NoError(t, err)
	for _, v := range CheckDependencies(tree, string(page)) {
		t.Error(v)
	}
}

// module returns a small module that holds every rule, with the given files laid over it.
func module(files map[string]string) fstest.MapFS {
	all := map[string]string{
		"go.mod":              "module github.com/rein-aharness/harness\n\ngo 1.26\n\nrequire (\n\tgithub.com/jackc/pgx/v5 v5.12.0 // indirect\n\tgithub.com/jackc/puddle/v2 v2.2.3 // indirect\n)\n",
		"doc.go":              "// Package harness is the chain.\npackage harness\n",
		"evidence/doc.go":     "// Package evidence holds facts.\npackage evidence\n",
		"queue/doc.go":        "// Package queue holds runs.\npackage queue\n",
		"queue/store.go":      "package queue\n\nimport _ \"github.com/jackc/pgx/v5/pgxpool\"\n",
		"sandbox/doc.go":      "// Package sandbox is the venue.\npackage sandbox\n",
		"cmd/harness/main.go": "// Command harness is the command line.\npackage main\n\nfunc main() {}\n",
		"tests/vault/go.mod":  "module example.org/vault\n\nrequire (\n\texample.org/direct v1.0.0\n\texample.org/along v1.0.0 // indirect\n)\n",
		"tests/vault/main.go": "package broken because it is another module",
	}
	for name, content := range files {
		all[name] = content
	}
	fsys := fstest.MapFS{}
	for name, content := range all {
		fsys[name] = &fstest.MapFile{Data: []byte(content)}
	}
	return fsys
}

func TestEachRuleCatchesItsViolation(t *testing.T) {
	t.Parallel()
	imports := func(pkg, imported string) string { return "package " + pkg + "\n\nimport _ \"" + imported + "\"\n" }
	const us = "github.com/rein-aharness/harness"
	cases := []struct {
		rule string
		file string
		code string
		want string // part of the violation
	}{
		{"imports point one way", "evidence/up.go", imports("evidence", us+"/queue"), "evidence may not import queue"},
		{"imports point one way", "sandbox/side.go", imports("sandbox", us+"/repotx"), "sandbox may not import repotx"},
		{"imports point one way", "repotx/side.go", imports("repotx", us+"/sandbox/wire"), "repotx may not import sandbox/wire"},
		{"imports point one way", "rein/credential/up.go", imports("credential", us+"/rein"), "rein/credential may not import rein"},
		{"imports point one way", "internal/a/a.go", imports("a", us+"/evidence"), "internal/a may not import evidence"},
		{"imports point one way", "internal/a/a.go", imports("a", us+"/internal/b"), "internal/a may not import internal/b"},
		{"imports point one way", "queue/root.go", imports("queue", us), "queue may not import ."},
		{"imports point one way", "chain.go", imports("harness", us+"/cmd/harness"), ". may not import cmd/harness"},
		{"imports point one way", "queue/fake.go", imports("queue", us+"/tests/stack"), "queue may not import tests/stack"},
		{"imports point one way", "queue/x_test.go", imports("queue_test", us+"/tests/e2e"), "queue may not import tests/e2e"},
		{"imports point one way", "tests/stack/up.go", imports("stack", us+"/queue"), "tests/stack may not import queue"},
		{"imports point one way", "queue/tagged.go", "//go:build plan9\n\n" + imports("queue", us+"/cmd/harness"), "queue may not import cmd/harness"},
		{"imports point one way", "extra/extra.go", "package extra\n", "no row of the layer table"},

		{"each library belongs to one package", "evidence/db.go", imports("evidence", "github.com/jackc/pgx/v5"), "belongs to"},
		{"each library belongs to one package", "profiles/db.go", imports("profiles", "database/sql"), "belongs to"},
		{"each library belongs to one package", "queue/docker.go", imports("queue", "github.com/docker/docker/client"), "belongs to"},
		{"each library belongs to one package", "rein/vault.go", imports("rein", "github.com/hashicorp/vault/api"), "belongs to"},
		{"each library belongs to one package", "chain.go", imports("harness", "github.com/go-git/go-git/v5/plumbing"), "belongs to"},
		{"each library belongs to one package", "sandbox/image.go", imports("sandbox", "github.com/google/go-containerregistry/pkg/v1"), "belongs to"},

		{"test libraries stay in tests", "queue/hook.go", imports("queue", "testing"), "imports testing outside a test"},
		{"test libraries stay in tests", "queue/hook.go", imports("queue", "github.com/stretchr/testify/require"), "outside a test"},

		{"no init functions", "queue/magic.go", "package queue\n\nfunc init() {}\n", "queue/magic.go:3"},

		{"no global state", "queue/g.go", "package queue\n\nvar n int\n\nfunc f() { n++ }\n", "variable n"},
		{"no global state", "queue/g.go", "package queue\n\nvar m = map[string]int{}\n\nfunc f() { m[\"a\"] = 1 }\n", "variable m"},
		{"no global state", "queue/g.go", "package queue\n\nvar m = map[string]int{}\n\nfunc f() { delete(m, \"a\") }\n", "variable m"},
		{"no global state", "queue/g.go", "package queue\n\nvar v struct{ a []int }\n\nfunc f() { v.a[0] = 1 }\n", "variable v"},
		{"no global state", "queue/g.go", "package queue\n\nvar v int\n\nfunc f() *int { return &v }\n", "variable v"},
		{"no global state", "queue/g.go", "package queue\n\nimport \"net/http\"\n\nfunc f() { http.DefaultClient = nil }\n", "variable http.DefaultClient"},
		{"no global state", "queue/g.go", "package queue\n\nimport \"sync\"\n\nvar mu sync.Mutex\n", "package-level sync.Mutex"},
		{"no global state", "queue/g.go", "package queue\n\nimport \"sync/atomic\"\n\nvar p atomic.Pointer[int]\n", "package-level atomic.Pointer"},
		{"no global state", "queue/g.go", "package queue\n\nvar c = make(chan int)\n", "package-level channel"},
		{"no global state", "queue/doc.go", "// Package queue holds runs.\npackage queue\n\nvar now = f\n\nfunc f() {}\n", ""},
		{"no global state", "queue/a_test.go", "package queue\n\nvar own int\n\nfunc f() { own = 1 }\n", ""},
		{"no global state", "queue/g.go", "package queue\n\nvar n int\n\nfunc f() { n := 0; n++; _ = n }\n", ""},

		{"only the sandbox starts processes", "queue/run.go", imports("queue", "os/exec"), "imports os/exec"},
		{"only the sandbox starts processes", "cmd/harness/pager.go", "package main\n\nimport \"os\"\n\nvar _ = os.StartProcess\n", "os.StartProcess"},
		{"only the sandbox starts processes", "sandbox/init.go", imports("sandbox", "os/exec"), ""},

		{"the time of day is the database's", "chain.go", "package harness\n\nimport \"time\"\n\nvar _ = time.Now\n", "time.Now"},
		{"the time of day is the database's", "queue/age.go", "package queue\n\nimport \"time\"\n\nvar _ = time.Since(time.Time{})\n", "time.Since"},
		{"the time of day is the database's", "queue/a_test.go", "package queue\n\nimport \"time\"\n\nvar _ = time.Now\n", ""},
		{"the time of day is the database's", "cmd/harness/age.go", "package main\n\nimport \"time\"\n\nvar _ = time.Now\n", ""},

		{"failpoints are not in the shipped binary", "queue/f.go", "package queue\n\nconst env = \"HARNESS_FAILPOINT\"\n", "queue/f.go:3"},
		{"failpoints are not in the shipped binary", "queue/f.go", "//go:build !failpoint\n\npackage queue\n\nconst env = \"HARNESS_FAILPOINT\"\n", "queue/f.go:5"},
		{"failpoints are not in the shipped binary", "queue/f.go", "//go:build failpoint || linux\n\npackage queue\n\nconst env = \"HARNESS_FAILPOINT\"\n", "queue/f.go:5"},
		{"failpoints are not in the shipped binary", "queue/f.go", imports("queue", "example.org/failpoint"), "imports example.org/failpoint"},
		{"failpoints are not in the shipped binary", "queue/f.go", imports("queue", us+"/internal/failpoint"), ""},
		{"failpoints are not in the shipped binary", "internal/failpoint/off.go", "package failpoint\n\nconst p = \"accept.before_send\"\n", "off.go:3"},
		{"failpoints are not in the shipped binary", "queue/f.go", "//go:build failpoint && linux\n\npackage queue\n\nconst env = \"HARNESS_FAILPOINT\"\n", ""},

		{"tests never skip", "queue/a_test.go", "package queue\n\nfunc TestA(t *T) { t.Skip() }\n", "a test skips"},
		{"tests never skip", "queue/a_test.go", "package queue\n\nfunc TestA(t *T) { t.Skipf(\"no engine\") }\n", "a test skips"},

		{"nothing is left to be done in a comment", "queue/a.go", "package queue\n\n// " + "TO" + "DO: later\n", "queue/a.go:3"},

		{"every package says what it is", "queue/doc.go", "package queue\n", "no doc.go"},
		{"every package says what it is", "queue/sub/sub.go", "// Package sub is documented in another file.\npackage sub\n", "no doc.go"},
		{"every package says what it is", "cmd/harness/main.go", "package main\n", "no package comment"},
		{"every package says what it is", "tests/e2e/a_test.go", "package e2e\n", ""},

		{"a package is named for its idea", "internal/util/doc.go", "// Package util has everything.\npackage util\n", "internal/util"},
		{"a package is named for its idea", "queue/helpers/doc.go", "// Package retry retries.\npackage retry\n", "queue/helpers"},

		{"a file is one thing", "queue/long.go", "package queue\n" + strings.Repeat("\n", maxLines), "501 lines"},
		{"a file is one thing", "queue/long.go", "// Code generated by x. DO NOT EDIT.\npackage queue\n" + strings.Repeat("\n", maxLines), ""},
	}
	shown := map[string]bool{}
	for _, c := range cases {
		i := slices.IndexFunc(Rules(), func(r Rule) bool { return r.Name == c.rule })
		require.NotEqual(t, -1, i, "no rule %q", c.rule)
		shown[c.rule] = shown[c.rule] || c.want != ""
		t.Run(c.rule+"/"+c.file, func(t *testing.T) {
			t.Parallel()
			tree, err := Load(module(map[string]string{c.file: c.code}))
			require.NoError(t, err)
			var found []string
			for _, v := range Rules()[i].Check(tree) {
				found = append(found, v.String())
			}
			if c.want == "" {
				require.Empty(t, found)
				return
			}
			require.Len(t, found, 1)
			require.Contains(t, found[0], c.want)
		})
	}
	for _, rule := range Rules() {
		require.True(t, shown[rule.Name], "no violation shows the rule %q", rule.Name)
	}
}

func TestACleanModuleViolatesNothing(t *testing.T) {
	t.Parallel()
	tree, err := Load(module(nil))
	require.NoError(t, err)
	for _, rule := range Rules() {
		require.Empty(t, rule.Check(tree), rule.Name)
	}
}

func TestProfilesMayRunTheQueuesMigrationsInTestsOnly(t *testing.T) {
	t.Parallel()
	code := "package profiles\n\nimport _ \"github.com/rein-aharness/harness/queue\"\n"
	tree, err := Load(module(map[string]string{"profiles/a_test.go": code}))
	require.NoError(t, err)
	require.Empty(t, checkLayers(tree))
	tree, err = Load(module(map[string]string{"profiles/a.go": code}))
	require.NoError(t, err)
	require.Len(t, checkLayers(tree), 1)
}

func TestAFileThatDoesNotParseIsAnError(t *testing.T) {
	t.Parallel()
	_, err := Load(module(map[string]string{"queue/a.go": "package"}))
	require.ErrorContains(t, err, "queue/a.go")
	_, err = Load(fstest.MapFS{})
	require.ErrorContains(t, err, "module file")
}

func TestDependenciesPage(t *testing.T) {
	t.Parallel()
	const head = "# Dependencies\n\n| module | licence | why |\n|---|---|---|\n"
	const pgx = "| github.com/jackc/pgx/v5 | MIT | Postgres |\n"
	const direct = "| `example.org/direct` | MPL-2.0 | the vault of the stack |\n"
	for name, c := range map[string]struct{ page, want string }{
		"all there":                      {head + pgx + direct, ""},
		"an imported module has no line": {head + direct, "pgx/v5 has no line"},
		"a nested module's has no line":  {head + pgx, "example.org/direct has no line"},
		"no licence":                     {head + direct + "| github.com/jackc/pgx/v5 | | Postgres |\n", "needs a licence"},
		"no reason":                      {head + direct + "| github.com/jackc/pgx/v5 | MIT |\n", "needs a licence"},
		"listed twice":                   {head + pgx + direct + pgx, "listed twice"},
		"not required":                   {head + pgx + direct + "| example.org/gone | MIT | was used once |\n", "required by no go.mod"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tree, err := Load(module(nil))
			require.NoError(t, err)
			found := CheckDependencies(tree, c.page)
			if c.want == "" {
				require.Empty(t, found)
				return
			}
			require.Len(t, found, 1)
			require.Contains(t, found[0].String(), c.want)
		})
	}
}
