package repotx

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
)

// A33
func TestEverySpellingOfAURLHasOneIdentity(t *testing.T) {
	t.Parallel()
	for id, spellings := range map[string][]string{
		"git.example.org/team/project": {
			"https://git.example.org/team/project", "https://git.example.org/team/project.git", "https://git.example.org/team/project.git/",
			"HTTPS://GIT.Example.ORG:443/team/project", "https://git.example.org./team//project/", "ssh://git@git.example.org/team/project.git",
			"ssh://git.example.org:22/team/project", "git@git.example.org:team/project.git", "git.example.org:team/project",
			"git@git.example.org:/team/project", "https://git.example.org/te%61m/project",
		},
		"github.com/team/project":             {"https://github.com/Team/Project.git", "git@GitHub.com:team/project"},
		"git.example.org/Team/project":        {"https://git.example.org/Team/project"},
		"git.example.org:8443/team/project":   {"https://git.example.org:8443/team/project", "https://git.example.org:08443/team/project.git"},
		"127.0.0.1:3000/p":                    {"http://127.0.0.1:3000/p.git", "http://[::ffff:127.0.0.1]:3000/p"},
		"[::1]:3000/p":                        {"http://[::1]:3000/p.git", "http://[0:0:0:0:0:0:0:1]:3000/p"},
		"localhost/p":                         {"http://localhost/p", "http://LOCALHOST:80/p"},
		"xn--bcher-kva.example/p":             {"https://bücher.example/p", "https://xn--bcher-kva.example/p"},
		"git.example.org/~someone/project":    {"ssh://git@git.example.org/~someone/project.git"},
		"git.example.org/team/project.git.io": {"https://git.example.org/team/project.git.io"},
	} {
		for _, spelling := range spellings {
			repo, err := Canonical(spelling)
			require.NoError(t, err, spelling)
			require.Equal(t, id, repo.ID, spelling)
			again, err := Canonical(repo.URL)
			require.NoError(t, err, repo.URL)
			require.Equal(t, repo, again, "the normal form is a fixed point")
		}
	}
}

// A33, CASES 31
func TestURLsThatHideSomethingAreRefused(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"", "project", "/srv/git/project", "file:///srv/git/project", "git://git.example.org/p", "ftp://git.example.org/p",
		"https://user:hunter2-secret@git.example.org/p", "https://hunter2-secret@git.example.org/p", "ssh://git:hunter2-secret@git.example.org/p",
		"http://git.example.org/p", "https://git.example.org", "https://git.example.org/", "https://git.example.org/.git",
		"https://git.example.org/a/../p", "https://git.example.org/a/%2e%2e/p", "https://git.example.org/a%2fp", "https://git.example.org/p%00",
		"https://git.example.org/p?x=hunter2-secret", "https://git.example.org/p?", "https://git.example.org/p#x", "https://git.example.org/p#",
		"https://git.example.org/p q", "https://git.example.org/p\nq", "https://git.example.org:99999/p", "https://git.example.org:/p",
		"https://git.example.org:0/p", "https:git.example.org/p", "https:///p", `https://git.example.org\p`, "https://exa_mple..org/p",
		"ssh://-oProxyCommand=x@git.example.org/p%0a", "ssh://git@[fe80::1%25eth0]/p", "https://git.example.org/%ff", "https://git.example.org/p/.git",
		"https://\uff11\uff12\uff17.0.0.1/p", "https://git.example.org../p",
		"https://git.example.org/" + strings.Repeat("a", 3000),
	} {
		_, err := Canonical(url)
		require.Error(t, err, url)
		require.Equal(t, evidence.CodeRepositoryMalformed, evidence.CodeOf(err))
		require.NotContains(t, err.Error(), "hunter2")
	}
}

func FuzzCanonical(f *testing.F) {
	for _, seed := range []string{
		"https://git.example.org/team/project.git", "git@git.example.org:team/project", "ssh://git@[::1]:2222/p", "http://127.0.0.1:1/p%20q",
		"https://a@b/c", "host:p%41", "https://xn--a/p", "git@h:a//b/", "https://h/%E2%80%AE",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		repo, err := Canonical(raw)
		if err != nil {
			return
		}
		again, err := Canonical(repo.URL)
		require.NoError(t, err, "%q", repo.URL)
		require.Equal(t, repo, again)
		host, _, _ := strings.Cut(repo.ID, "/")
		require.NotContains(t, host, "@")
		require.False(t, strings.HasSuffix(repo.ID, "/") || strings.Contains(repo.ID, "//") || strings.Contains(repo.ID+"/", "/../"), repo.ID)
	})
}

func TestRefNamesFollowGitsRules(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	for _, name := range []string{
		"refs/heads/main", "refs/heads/a/b-c_d.e", "refs/heads/.a", "refs/heads/a.lock", "refs/heads/a.lock/b", "refs/heads/a..b",
		"refs/heads/a b", "refs/heads/a~b", "refs/heads/a^b", "refs/heads/a:b", "refs/heads/a?b", "refs/heads/a*b", "refs/heads/a[b",
		`refs/heads/a\b`, "refs/heads/", "refs/heads//a", "refs/heads/a/", "refs/heads/a.", "refs/heads/@{x", "refs/heads/a@", "refs/heads/\x7f",
		"refs/heads/ü", "refs/heads/-a", "refs/heads/@",
	} {
		_, err := s.tryGit("", "check-ref-format", name)
		require.Equal(t, err == nil, checkRefName(name) == nil, name)
	}
	for _, name := range []string{"main", "HEAD", "refs/tags/v1", "refs/harness/fence/run-1", "refs/heads", "refs/headsx/a"} {
		require.Error(t, checkBranch(name), name)
	}
	for _, run := range []string{"", "a/b", "..", "a b", "-x", strings.Repeat("a", 65)} {
		_, err := FenceRef(run)
		require.Error(t, err, run)
	}
}
