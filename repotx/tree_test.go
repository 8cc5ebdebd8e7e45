package repotx

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rein-aharness/harness/evidence"
)

// A34: the tree that is built from a change is the tree that stock git builds from the same files.
func TestTreePropertyAgainstGit(t *testing.T) {
	t.Parallel()
	contents := []string{"", "1\n", "2\n", "#!x\n", "->t", "three\nlines\nhere\n"}
	names := []string{"a", "b", "a.b", "a-b", "a b", "z", "é", "a0"}
	files := map[string]string{}
	for i, n := range names {
		for j, m := range names {
			files[fmt.Sprintf("%s-dir/%s", n, m)] = contents[(i+j)%len(contents)]
		}
		files[n] = contents[i%len(contents)]
		files["deep/"+n+"/x/y"] = contents[i%len(contents)]
	}
	repo := newServer(t).repository("project", files)
	b := baselineOf(t, repo)
	blobs := map[string]string{} // content to index line prefix
	for _, c := range contents {
		mode, data := "100644", c
		if strings.HasPrefix(c, "#!") {
			mode = "100755"
		}
		if target, ok := strings.CutPrefix(c, "->"); ok {
			mode, data = "120000", target
		}
		file := filepath.Join(t.TempDir(), "content")
		require.NoError(t, os.WriteFile(file, []byte(data), 0o644))
		blobs[c] = mode + " " + strings.TrimSpace(repo.git(repo.work, "hash-object", "-w", file))
	}
	index := filepath.Join(t.TempDir(), "index")
	segment := rapid.SampledFrom(append(names, "deep", "x", "y", "a-dir", "b-dir", "z-dir"))
	path := rapid.Map(rapid.SliceOfN(segment, 1, 4), func(p []string) string { return strings.Join(p, "/") })
	rapid.Check(t, func(rt *rapid.T) {
		after := map[string]string{}
		for p, c := range files {
			after[p] = c
		}
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			p := path.Draw(rt, "path")
			switch rapid.IntRange(0, 2).Draw(rt, "step") {
			case 0: // delete the path and all below it
				for q := range after {
					if q == p || strings.HasPrefix(q, p+"/") {
						delete(after, q)
					}
				}
			default: // put a file there, whatever was in its way
				for q := range after {
					if strings.HasPrefix(q, p+"/") || strings.HasPrefix(p, q+"/") {
						delete(after, q)
					}
				}
				after[p] = rapid.SampledFrom(contents).Draw(rt, "content")
			}
		}
		change := map[string]*string{}
		for p := range files {
			if _, kept := after[p]; !kept {
				change[p] = nil
			}
		}
		var lines strings.Builder
		for p, c := range after {
			fmt.Fprintf(&lines, "%s\t%s\x00", blobs[c], p)
			if before, was := files[p]; !was || before != c {
				change[p] = text(c)
			}
		}
		cs := collect(t, b, change)
		defer cs.Close()
		if cs.Empty() {
			return
		}
		c, err := b.Build(context.Background(), cs, testAuthor, "m", nil, testWhen)
		require.NoError(rt, err)
		require.Equal(rt, writeTree(rt, repo, index, lines.String()), c.Tree)
	})
}

// writeTree builds a tree with stock git from index lines.
func writeTree(t require.TestingT, repo *remoteRepo, index, lines string) string {
	require.NoError(t, os.RemoveAll(index))
	run := func(input string, args ...string) string {
		cmd := exec.Command("git", args...)
		cmd.Dir = repo.work
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + repo.root, "GIT_INDEX_FILE=" + index}
		cmd.Stdin = strings.NewReader(input)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return strings.TrimSpace(string(out))
	}
	run(lines, "update-index", "-z", "--index-info")
	return run("", "write-tree")
}

// Whatever a change says, merging it ends in a tree or a refusal, never in a panic or a tree that stock git would refuse.
func FuzzMerge(f *testing.F) {
	for _, seed := range []string{"a.txt\x00b.txt/x", "a.txt/x", "dir/b.txt\x00dir", "Dir/x", ".git/x", "//", "a\xff", "dir\x00dir/x"} {
		f.Add(seed, uint8(3))
	}
	repo := newServer(f).repository("project", map[string]string{"a.txt": "one\n", "dir/b.txt": "two\n", "dir/sub/c.txt": "three\n"})
	b, err := repo.remote(newStore(f)).Fetch(context.Background(), repo.head)
	require.NoError(f, err)
	f.Cleanup(func() { b.Close() })
	f.Fuzz(func(t *testing.T, names string, kinds uint8) {
		var cs ChangeSet
		for i, name := range strings.Split(names, "\x00") {
			c := Change{Path: name, Kind: Added, NewMode: ModeFile, NewHash: emptyTree}
			if i < 8 && kinds&(1<<i) != 0 {
				c = Change{Path: name, Kind: Deleted, OldMode: ModeFile, OldHash: emptyTree}
			}
			cs.Changes = append(cs.Changes, c)
		}
		root, err := b.merge(cs)
		if err != nil {
			require.NotEqual(t, evidence.CodeUnclassified, evidence.CodeOf(err))
			return
		}
		p := newPacker(1 << 20)
		_, err = root.encode(p.object)
		require.NoError(t, err)
	})
}

// A35: the line count is git's own.
func TestDiffstatAgreesWithGit(t *testing.T) {
	t.Parallel()
	line := rapid.SampledFrom([]string{"a\n", "b\n", "c\n", "d\n", "e\n"})
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		before := strings.Join(rapid.SliceOfN(line, 0, 30).Draw(t, "before"), "")
		after := strings.Join(rapid.SliceOfN(line, 0, 30).Draw(t, "after"), "")
		if before == after {
			return
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, "before"), []byte(before), 0o644))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "after"), []byte(after), 0o644))
		cmd := exec.Command("git", "diff", "--no-index", "--minimal", "--numstat", "before", "after")
		cmd.Dir = dir
		out, _ := cmd.Output() // its exit code says that they differ
		var ins, del int
		_, err := fmt.Sscan(string(out), &ins, &del)
		require.NoError(t, err, "%s", out)
		gotIns, gotDel := diffLines(splitLines([]byte(before)), splitLines([]byte(after)))
		require.Equal(t, []int{ins, del}, []int{gotIns, gotDel}, "%q %q", before, after)
	})
	ins, del := diffLines(strings.Split(strings.Repeat("x,", 5000), ","), strings.Split(strings.Repeat("y,", 5000), ","))
	require.Equal(t, []int{5000, 5000}, []int{ins, del}, "content made to be slow is counted as rewritten")
}
