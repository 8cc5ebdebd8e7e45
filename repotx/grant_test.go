package repotx

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
)

// A33
func TestIntersectAllowsOnlyWhatEveryPartyAllows(t *testing.T) {
	t.Parallel()
	grant := Grant{
		Repository: "h/p", BaseRef: main, TargetRef: "refs/heads/bot/one",
		Bounds: Bounds{Paths: []string{"**/*.go", "docs/**"}, Symlinks: true, Protected: []string{".github"}},
	}
	profile := Bounds{Paths: []string{"**"}, Symlinks: true, Protected: []string{".github/workflows", ".github"}}
	m, err := ParseManifest([]byte("version: 1\npaths: ['src/**', 'docs/*.md']\ntarget_refs: ['refs/heads/bot/**']\nsymlinks: false\nprotected: []\n"))
	require.NoError(t, err)
	a, err := Intersect(grant, profile, m)
	require.NoError(t, err)
	require.True(t, a.Permits("src/x/y.go"))
	require.True(t, a.Permits("docs/a.md"))
	require.False(t, a.Permits("y.go"), "not the manifest's")
	require.False(t, a.Permits("docs/x/a.md"), "not the manifest's")
	require.False(t, a.Permits("src/x.c"), "not the definition's")
	require.False(t, a.symlinks())
	require.False(t, a.unprotects(".github/workflows/x.yml"))

	a, err = Intersect(grant, profile, nil)
	require.NoError(t, err)
	require.True(t, a.symlinks() && a.unprotects(".github/workflows/x.yml") && a.unprotects(".github"))
	require.False(t, a.unprotects(".githubx/y"))
	require.False(t, Allowance{}.Permits("a"), "no party allows nothing")
	require.False(t, Allowance{}.symlinks() || Allowance{}.unprotects("x"))

	m.TargetRefs = []string{"refs/heads/other/*"}
	_, err = Intersect(grant, profile, m)
	require.Equal(t, evidence.CodeRefNotGranted, evidence.CodeOf(err))
	_, err = Intersect(grant, Bounds{}, nil)
	require.Equal(t, evidence.CodeGrantEmpty, evidence.CodeOf(err))
}

func TestGrantsThatCannotHoldAreRefused(t *testing.T) {
	t.Parallel()
	good := Grant{Repository: "h/p", BaseRef: main, TargetRef: main, Bounds: Bounds{Paths: []string{"**"}}}
	require.NoError(t, good.Validate())
	for name, spoil := range map[string]struct {
		code evidence.Code
		do   func(*Grant)
	}{
		"harness ref":        {evidence.CodeRefNotGranted, func(g *Grant) { g.TargetRef = "refs/harness/fence/x" }},
		"tag":                {evidence.CodeRefNotGranted, func(g *Grant) { g.BaseRef = "refs/tags/v1" }},
		"no repository":      {evidence.CodeContractInvalid, func(g *Grant) { g.Repository = "" }},
		"no paths":           {evidence.CodeContractInvalid, func(g *Grant) { g.Paths = nil }},
		"climbing pattern":   {evidence.CodeContractInvalid, func(g *Grant) { g.Paths = []string{"../**"} }},
		"rooted pattern":     {evidence.CodeContractInvalid, func(g *Grant) { g.Paths = []string{"/a"} }},
		"broken pattern":     {evidence.CodeContractInvalid, func(g *Grant) { g.Paths = []string{"a["} }},
		"protected pattern":  {evidence.CodeContractInvalid, func(g *Grant) { g.Protected = []string{".git*"} }},
		"protected git":      {evidence.CodeContractInvalid, func(g *Grant) { g.Protected = []string{".git"} }},
		"protected manifest": {evidence.CodeContractInvalid, func(g *Grant) { g.Protected = []string{".Harness.yaml"} }},
	} {
		g := good
		spoil.do(&g)
		require.Equal(t, spoil.code, evidence.CodeOf(g.Validate()), name)
	}
}

func TestManifestIsReadStrictly(t *testing.T) {
	t.Parallel()
	m, err := ParseManifest([]byte(testManifest))
	require.NoError(t, err)
	digest, err := m.Digest()
	require.NoError(t, err)
	same, err := ParseManifest([]byte("# a comment\ntarget_refs:\n- refs/heads/**\npaths:\n- '**'\nversion: 1\nprotected: []\nsymlinks: true\n"))
	require.NoError(t, err)
	other, err := same.Digest()
	require.NoError(t, err)
	require.Equal(t, digest, other, "layout does not matter")
	for _, bad := range []string{
		"", "[]", "null", testManifest + "extra: 1\n", testManifest + "version: 1\n", strings.Replace(testManifest, "1", "2", 1),
		strings.Replace(testManifest, "'**'", "", 1), strings.Replace(testManifest, "refs/heads/**", "refs/**", 1),
		strings.Replace(testManifest, "protected: []", "protected: ['.harness.yaml']", 1),
		"a: &a [1]\nb: *a\n", testManifest + "---\n" + testManifest, strings.Repeat("#", maxManifestBytes+1),
	} {
		_, err := ParseManifest([]byte(bad))
		require.Equal(t, evidence.CodeManifestMalformed, evidence.CodeOf(err), "%.60q", bad)
	}
}

func FuzzParseManifest(f *testing.F) {
	f.Add([]byte(testManifest))
	f.Add([]byte("version: 1\npaths: [a]\ntarget_refs: ['refs/heads/*']\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ParseManifest(data)
		if err != nil {
			require.Nil(t, m)
			return
		}
		require.Equal(t, 1, m.Version)
		require.NoError(t, m.Bounds.Validate())
		_, err = m.Digest()
		require.NoError(t, err)
	})
}

// A33: the manifest is read at the baseline, and one that cannot be read allows nothing.
func TestManifestComesFromTheBaseline(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	store := newStore(t)
	for name, row := range map[string]struct {
		content string
		found   bool
		code    evidence.Code
	}{
		"good": {testManifest, true, ""}, "none": {"", false, ""}, "link": {"->a.txt", true, evidence.CodeManifestMalformed},
		"broken": {"version: [", true, evidence.CodeManifestMalformed},
	} {
		files := map[string]string{"a.txt": testManifest}
		if row.content != "" {
			files[ManifestPath] = row.content
		}
		repo := s.repository(name, files)
		b, err := repo.remote(store).Fetch(context.Background(), repo.head)
		require.NoError(t, err, name)
		m, digest, found, err := b.Manifest(context.Background())
		require.Equal(t, row.found, found, name)
		if row.code != "" {
			require.Equal(t, row.code, evidence.CodeOf(err), name)
		} else {
			require.NoError(t, err, name)
			require.Equal(t, found, m != nil && digest != "", name)
		}
		require.NoError(t, b.Close())
	}
}
