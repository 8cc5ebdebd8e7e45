package repotx

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
)

func baselineOf(t testing.TB, repo *remoteRepo) *Baseline {
	t.Helper()
	b, err := repo.remote(newStore(t)).Fetch(context.Background(), repo.head)
	require.NoError(t, err)
	t.Cleanup(func() { b.Close() })
	return b
}

// A34, CASES 22, 25, 27, 32, 34: each hostile change is refused with the code of its rule.
func TestHostileChangesAreRefusedByTheirRule(t *testing.T) {
	t.Parallel()
	repo := newServer(t).repository("project", map[string]string{
		"src/a.go": "package a\n", "src/B.go": "package a\n", "docs/readme.md": "x\n", "deny/secret.go": "package d\n", "link": "->src/a.go",
		"out": "->/etc/passwd", ".github/workflows/ci.yml": "on: push\n", ManifestPath: testManifest, "é.go": "package e\n", "dir.go": "package x\n",
		".config/x.go": "package c\n",
	})
	repo.git(repo.work, "update-index", "--add", "--cacheinfo", "160000,"+repo.head+",sub/module")
	repo.git(repo.work, "commit", "-q", "-m", "submodule")
	repo.git(repo.work, "push", "-q", repo.dir, "HEAD:main")
	repo.head = repo.ref(main)
	b := baselineOf(t, repo)
	long := strings.Repeat("d/", 200)
	type row struct {
		change map[string]*string
		code   evidence.Code
	}
	add := func(path, content string, code evidence.Code) row {
		return row{map[string]*string{path: text(content)}, code}
	}
	rows := map[string]row{
		"outside the patterns":              add("docs/readme.md", "y", evidence.CodePathNotGranted),
		"new file outside the patterns":     add("README", "y", evidence.CodePathNotGranted),
		"delete outside":                    {map[string]*string{"docs/readme.md": nil}, evidence.CodePathNotGranted},
		"rename out of a denied folder":     {map[string]*string{"deny/secret.go": nil, "src/secret.go": text("package d\n")}, evidence.CodePathNotGranted},
		"workflow":                          add(".github/workflows/new.go", "y", evidence.CodePathProtected),
		"workflow in other case":            add(".GitHub/workflows/new.go", "y", evidence.CodePathProtected),
		"delete a workflow":                 {map[string]*string{".github/workflows/ci.yml": nil}, evidence.CodePathProtected},
		"any dot-folder":                    add(".config/x.go", "y", evidence.CodePathProtected),
		"gitmodules":                        add(".gitmodules", "y", evidence.CodePathProtected),
		"gitattributes anywhere":            add("src/.gitattributes", "y", evidence.CodePathProtected),
		"CODEOWNERS anywhere":               add("src/CODEOWNERS", "y", evidence.CodePathProtected),
		"CODEOWNERS in other case":          add("CodeOwners", "y", evidence.CodePathProtected),
		"build definition":                  add(".gitlab-ci.yml", "y", evidence.CodePathProtected),
		"the manifest":                      add(ManifestPath, "y", evidence.CodePathProtected),
		"the manifest deleted":              {map[string]*string{ManifestPath: nil}, evidence.CodePathProtected},
		"the manifest in other case":        add(".Harness.YAML", "y", evidence.CodePathProtected),
		"git folder":                        add(".git/hooks/pre-commit.go", "y", evidence.CodePathInvalid),
		"git folder below":                  add("src/.git/config.go", "y", evidence.CodePathInvalid),
		"git folder in capitals":            add("src/.GIT/config.go", "y", evidence.CodePathInvalid),
		"git folder by short name":          add("src/GIT~1/config.go", "y", evidence.CodePathInvalid),
		"git folder, trailing dot":          add("src/.git./x.go", "y", evidence.CodePathInvalid),
		"git folder, trailing space":        add("src/.git /x.go", "y", evidence.CodePathInvalid),
		"git folder, stream":                add("src/.git::$INDEX_ALLOCATION/x.go", "y", evidence.CodePathInvalid),
		"git folder, ignorable code point":  add("src/.g\u200cit/x.go", "y", evidence.CodePathInvalid),
		"git folder, backslash":             add(`src/x\.git\x.go`, "y", evidence.CodePathInvalid),
		"dot dot":                           add("src/../x.go", "y", evidence.CodePathInvalid),
		"absolute":                          add("/src/x.go", "y", evidence.CodePathInvalid),
		"dot":                               add("./src/x.go", "y", evidence.CodePathInvalid),
		"empty component":                   add("src//x.go", "y", evidence.CodePathInvalid),
		"newline":                           add("src/a\nb.go", "y", evidence.CodePathInvalid),
		"escape sequence":                   add("src/\x1b[2Jb.go", "y", evidence.CodePathInvalid),
		"NUL":                               add("src/a\x00b.go", "y", evidence.CodePathInvalid),
		"direction override":                add("src/a\u202eog.go", "y", evidence.CodePathInvalid),
		"bad UTF-8":                         add("src/\xff.go", "y", evidence.CodePathInvalid),
		"surrogate":                         add("src/\xed\xa0\x80.go", "y", evidence.CodePathInvalid),
		"too deep":                          add(long+long+"x.go", "y", evidence.CodePathInvalid),
		"component too long":                add("src/"+strings.Repeat("a", 256)+".go", "y", evidence.CodePathInvalid),
		"case collision":                    add("src/A.go", "y", evidence.CodePathCollision),
		"case collision of two new":         {map[string]*string{"src/n.go": text("1"), "src/N.go": text("2")}, evidence.CodePathCollision},
		"case collision of a folder":        add("SRC/n.go", "y", evidence.CodePathCollision),
		"composition collision":             add("e\u0301.go", "y", evidence.CodePathCollision),
		"sharp s":                           {map[string]*string{"src/ß.go": text("1"), "src/SS.go": text("2")}, evidence.CodePathCollision},
		"file where a folder is":            add("src", "y", evidence.CodePathCollision),
		"folder where a file is":            add("dir.go/x.go", "y", evidence.CodePathCollision),
		"submodule's content":               add("sub/module/x.go", "y", evidence.CodeGitlinkRefused),
		"submodule replaced":                add("sub/module", "y", evidence.CodeGitlinkRefused),
		"link to outside":                   add("src/l.go", "->../../etc/passwd", evidence.CodeSymlinkRefused),
		"absolute link":                     add("src/l.go", "->/etc/passwd", evidence.CodeSymlinkRefused),
		"link to git":                       add("src/l.go", "->../.git/config", evidence.CodeSymlinkRefused),
		"link up after down":                add("src/l.go", "->x/../../y", evidence.CodeSymlinkRefused),
		"link through a link":               add("src/l.go", "->../link/x", evidence.CodeSymlinkRefused),
		"link to a link that leaves":        add("src/l.go", "->../out", evidence.CodeSymlinkRefused),
		"link to itself":                    add("src/l.go", "->l.go", evidence.CodeSymlinkRefused),
		"empty link":                        add("src/l.go", "->", evidence.CodeSymlinkRefused),
		"link to the root":                  add("src/l.go", "->..", evidence.CodeSymlinkRefused),
		"link with NUL":                     add("src/l.go", "->a\x00b", evidence.CodeSymlinkRefused),
		"dot-folder replaced by a link":     {map[string]*string{".x.go": text("->src")}, evidence.CodePathProtected},
		"two links, one outside":            {map[string]*string{"src/l.go": text("->m.go"), "src/m.go": text("->../../x")}, evidence.CodeSymlinkRefused},
		"folder link then file through it":  {map[string]*string{"src/f.go": text("->../docs"), "src/f.go/x.go": text("y")}, evidence.CodePathCollision},
		"backslash link":                    add("src/l.go", `->..\..\x`, evidence.CodeSymlinkRefused),
		"mode-only change outside":          {map[string]*string{"docs/readme.md": text("#!x\n")}, evidence.CodePathNotGranted},
		"unchanged folder, file at its end": add("deny", "y", evidence.CodePathNotGranted),
	}
	// The harmless patterns stand for the grant; the rules about names hold whatever the patterns say.
	narrow := Bounds{Paths: []string{"**/*.go", "src", "src/**", "sub/**", "link", ".gitmodules", "Code*", ".github/**", ".gitlab-ci.yml"}, Symlinks: true}
	manifest := &Manifest{Version: 1, TargetRefs: []string{"refs/heads/*"}, Bounds: Bounds{Paths: []string{"src/**", "sub/**", "SRC/**", ".*", ".*/**", "*.go", "C*", "dir.go/**"}, Symlinks: true}}
	allowance, err := Intersect(Grant{Repository: "h/p", BaseRef: main, TargetRef: main, Bounds: narrow}, Bounds{Paths: []string{"**"}, Symlinks: true}, manifest)
	require.NoError(t, err)
	for name, row := range rows {
		cs := collect(t, b, row.change)
		err := b.Check(cs, allowance)
		if row.code == evidence.CodePathInvalid || row.code == evidence.CodeGitlinkRefused {
			err = b.Check(cs, allow(t, Repository{ID: "h/p"}, main))
		}
		require.Equal(t, row.code, evidence.CodeOf(err), "%s: %v", name, err)
	}
	// Without a grant for links, every side that is one is refused.
	plain, err := Intersect(Grant{Repository: "h/p", BaseRef: main, TargetRef: main, Bounds: Bounds{Paths: []string{"**"}}}, Bounds{Paths: []string{"**"}, Symlinks: true}, nil)
	require.NoError(t, err)
	for _, change := range []map[string]*string{{"l": text("->link")}, {"link": nil}, {"link": text("a file now")}, {"link": text("->docs/readme.md")}} {
		require.Equal(t, evidence.CodeSymlinkRefused, evidence.CodeOf(b.Check(collect(t, b, change), plain)))
	}
}

// A34, CASES 26, 28, 34: legitimate changes arrive byte for byte.
func TestLegitimateChangesAreByteExact(t *testing.T) {
	t.Parallel()
	repo := newServer(t).repository("project", map[string]string{
		"crlf.txt": "a\r\nb\r\n", "tool.sh": "#!/bin/sh\n", "plain": "x\n", "old name.txt": "moved\n", "d/only.txt": "x", "link": "->plain", "Case.txt": "c\n",
		"b/f": "1", "b-c": "2", "b.c": "3", "keep/.github/x": "deeper dot-folders are not protected\n",
	})
	tx := begin(t, repo, newStore(t), "run-1", main, map[string]*string{
		"crlf.txt": text("a\r\nB\r\n"), "tool.sh": text("plain now\n"), "plain": text("#!now executable\n"),
		"old name.txt": nil, "new name.txt": text("moved\n"), "empty": text(""), "d/only.txt": nil, "d": text("a file where a folder was\n"),
		"quote\"s 'n $(x).txt": text("q"), "日本語/ファイル.txt": text("utf-8"), "link": text("->d"), "Case.txt": nil, "case.txt": text("c\n"),
		"no newline": text("x"), "nul": text("a\x00b"), "b/f": nil, "b": text("file"), "keep/.github/x": text("changed\n"), "trailing dot.": text("t"),
	})
	require.True(t, tx.publish(t).Complete())
	require.Equal(t, "a\r\nB\r\n", repo.git(repo.dir, "show", "main:crlf.txt"))
	require.Equal(t, "a\x00b", repo.git(repo.dir, "show", "main:nul"))
	require.Equal(t, "q", repo.git(repo.dir, "show", "main:quote\"s 'n $(x).txt"))
	modes := repo.git(repo.dir, "-c", "core.quotePath=false", "ls-tree", "-r", "--format=%(objectmode) %(path)", "main")
	for _, want := range []string{
		"100644 tool.sh", "100755 plain", "100644 empty", "100644 d", "120000 link", "100644 日本語/ファイル.txt", "100644 case.txt", "100644 b",
		"100644 new name.txt",
	} {
		require.Contains(t, modes, want+"\n")
	}
	require.NotContains(t, modes, "Case.txt")
	repo.git(repo.dir, "fsck", "--strict", "--full")
	renamed := repo.git(repo.dir, "rev-parse", "main:new name.txt")
	require.Equal(t, renamed, repo.git(repo.dir, "rev-parse", "main~:old name.txt"))
}

// A34: the exact pack has nothing that the remote holds already.
func TestPackHoldsExactlyTheNewObjects(t *testing.T) {
	t.Parallel()
	repo := newServer(t).repository("project", map[string]string{"a/x.txt": "x\n", "b/y.txt": "y\n", "c/z.txt": "z\n"})
	tx := begin(t, repo, newStore(t), "run-1", main, map[string]*string{"a/x.txt": nil, "b/moved.txt": text("x\n"), "b/new.txt": text("new\n")})
	require.True(t, tx.publish(t).Complete())
	want := strings.Fields(repo.git(repo.dir, "rev-list", "--objects", "--no-object-names", main, "^"+repo.head))
	require.Len(t, want, 4, "commit, root, folder b, one blob; folder a is gone")
	count := int(tx.commit.Pack[8])<<24 | int(tx.commit.Pack[9])<<16 | int(tx.commit.Pack[10])<<8 | int(tx.commit.Pack[11])
	require.Equal(t, len(want), count)
}

// A40: the same input gives the same bytes.
func TestBuildIsDeterministic(t *testing.T) {
	t.Parallel()
	repo := project(t)
	b := baselineOf(t, repo)
	build := func() *Commit {
		cs := collect(t, b, map[string]*string{"n/1": text("1"), "n/2": text("2"), "a.txt": text("c")})
		c, err := b.Build(context.Background(), cs, testAuthor, "Change", []Trailer{{TrailerRun, "r"}}, testWhen)
		require.NoError(t, err)
		return c
	}
	require.Equal(t, build(), build())
}

// CASES 33, 29
func TestCommitsThatForgeAreRefused(t *testing.T) {
	t.Parallel()
	b := baselineOf(t, project(t))
	cs := collect(t, b, change())
	type input struct {
		author  Author
		message string
		trailer Trailer
	}
	good := input{testAuthor, "Message\n\nwith a body:\ttabbed\n", Trailer{TrailerRun, "r"}}
	build := func(in input) error {
		_, err := b.Build(context.Background(), cs, in.author, in.message, []Trailer{in.trailer}, testWhen)
		return err
	}
	require.NoError(t, build(good))
	for name, spoil := range map[string]func(*input){
		"newline in a name":      func(in *input) { in.author.Name = "a\nparent 0" },
		"bracket in a name":      func(in *input) { in.author.Name = "a <b@c>" },
		"empty name":             func(in *input) { in.author.Name = "" },
		"crud around a name":     func(in *input) { in.author.Name = "a." },
		"newline in an address":  func(in *input) { in.author.Email = "a@b\nx" },
		"empty message":          func(in *input) { in.message = " \n" },
		"NUL in a message":       func(in *input) { in.message = "a\x00b" },
		"escape in a message":    func(in *input) { in.message = "a\x1b[2J" },
		"bad UTF-8":              func(in *input) { in.message = "a\xff" },
		"forged trailer":         func(in *input) { in.message = "a\n\nharness-run: other" },
		"newline in a trailer":   func(in *input) { in.trailer.Value = "a\nHarness-Run: b" },
		"colon in a trailer key": func(in *input) { in.trailer.Key = "a: b" },
		"over-long message":      func(in *input) { in.message = strings.Repeat("a", maxMessageBytes+1) },
	} {
		in := good
		spoil(&in)
		require.Equal(t, evidence.CodeCommitMalformed, evidence.CodeOf(build(in)), name)
	}
	_, err := b.Build(context.Background(), collect(t, b, nil), testAuthor, "m", nil, testWhen)
	require.Equal(t, evidence.CodeCommitMalformed, evidence.CodeOf(err), "never an empty commit")
	b.packBytes = 100
	require.Equal(t, evidence.CodePackTooLarge, evidence.CodeOf(build(good)))
}

func TestCollectorRefusesWhatTheStreamMayNotSay(t *testing.T) {
	t.Parallel()
	b := baselineOf(t, project(t))
	for name, row := range map[string]struct {
		code evidence.Code
		do   func(c *Collector) error
	}{
		"unchanged but unknown": {evidence.CodeStreamMalformed, func(c *Collector) error { return c.Same("nope") }},
		"twice":                 {evidence.CodePathCollision, func(c *Collector) error { c.Same("a.txt"); return c.Same("a.txt") }},
		"same and changed": {evidence.CodePathCollision, func(c *Collector) error {
			c.Same("a.txt")
			return c.Add("a.txt", ModeFile, 1, strings.NewReader("x"))
		}},
		"shorter":       {evidence.CodeLengthMismatch, func(c *Collector) error { return c.Add("n", ModeFile, 5, strings.NewReader("1234")) }},
		"longer":        {evidence.CodeLengthMismatch, func(c *Collector) error { return c.Add("n", ModeFile, 5, strings.NewReader("123456")) }},
		"negative":      {evidence.CodeLengthMismatch, func(c *Collector) error { return c.Add("n", ModeFile, -1, strings.NewReader("")) }},
		"broken stream": {evidence.CodeCaptureFailed, func(c *Collector) error { return c.Add("n", ModeFile, 5, failing{}) }},
		"folder":        {evidence.CodeModeRefused, func(c *Collector) error { return c.Add("n", 0o40000, 0, strings.NewReader("")) }},
		"gitlink":       {evidence.CodeModeRefused, func(c *Collector) error { return c.Add("n", 0o160000, 0, strings.NewReader("")) }},
		"setuid":        {evidence.CodeModeRefused, func(c *Collector) error { return c.Add("n", 0o104755, 0, strings.NewReader("")) }},
		"file too large": {evidence.CodeBytesExceeded, func(c *Collector) error {
			return c.Add("n", ModeFile, 101, strings.NewReader(""))
		}},
		"too much in all": {evidence.CodeBytesExceeded, func(c *Collector) error {
			for i := range 3 {
				if err := c.Add(fmt.Sprint(i), ModeFile, 90, strings.NewReader(strings.Repeat("x", 90))); err != nil {
					return err
				}
			}
			return nil
		}},
		"too many files": {evidence.CodeEntriesExceeded, func(c *Collector) error {
			for i := range 5 {
				if err := c.Add(fmt.Sprint(i), ModeFile, 0, strings.NewReader("")); err != nil {
					return err
				}
			}
			return nil
		}},
		"path too long": {evidence.CodePathInvalid, func(c *Collector) error { return c.Add(strings.Repeat("a/", 3000), ModeFile, 0, strings.NewReader("")) }},
	} {
		c, err := NewCollector(b, Limits{Files: 4, Bytes: 200, FileBytes: 100})
		require.NoError(t, err)
		require.Equal(t, row.code, evidence.CodeOf(row.do(c)), name)
		require.NoError(t, c.Discard())
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrClosedPipe }

// A34: a released value is found in content, in a name and in a link's target, and its own name is not repeated.
func TestReleasedValuesInAChangeAreRefused(t *testing.T) {
	t.Parallel()
	b := baselineOf(t, project(t))
	canary := []byte("s3cr3t-canary-value")
	scan := func(change map[string]*string) error {
		return ScanSecrets(context.Background(), collect(t, b, change), [][]byte{canary})
	}
	require.NoError(t, scan(change()))
	require.NoError(t, scan(map[string]*string{"a.txt": nil}))
	for name, c := range map[string]map[string]*string{
		"raw": {"n": text("x" + string(canary) + "y")}, "base64": {"n": text(base64.StdEncoding.EncodeToString(append([]byte("x"), canary...)))},
		"hex": {"n": text(fmt.Sprintf("%x", canary))}, "link": {"n": text("->" + string(canary))},
		"far in": {"n": text(strings.Repeat("x", 100_000) + string(canary))},
	} {
		require.Equal(t, evidence.CodeCredentialInChange, evidence.CodeOf(scan(c)), name)
	}
	err := scan(map[string]*string{"dir/" + string(canary): text("x")})
	require.Equal(t, evidence.CodeCredentialInChange, evidence.CodeOf(err))
	require.False(t, bytes.Contains([]byte(err.Error()), canary))
}
