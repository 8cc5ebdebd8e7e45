package stack_test

import (
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/tests/stack"
)

func TestDatabaseIsEmptyAndItsOwn(t *testing.T) {
	t.Parallel()
	s := stack.Load(t)
	for range 2 {
		connection, err := pgx.Connect(t.Context(), s.Database(t))
		require.NoError(t, err)
		_, err = connection.Exec(t.Context(), `CREATE TABLE only_here ()`)
		require.NoError(t, err)
		require.NoError(t, connection.Close(t.Context()))
	}
}

func TestDatabaseFromMigratesOnce(t *testing.T) {
	t.Parallel()
	s := stack.Load(t)
	var migrations int
	name := "once_" + strings.ToLower(rand.Text()[:8])
	for range 3 {
		url := s.DatabaseFrom(t, name, func(ctx context.Context, url string) error {
			migrations++
			connection, err := pgx.Connect(ctx, url)
			if err != nil {
				return err
			}
			if _, err := connection.Exec(ctx, `CREATE TABLE migrated ()`); err != nil {
				return err
			}
			return connection.Close(ctx)
		})
		connection, err := pgx.Connect(t.Context(), url)
		require.NoError(t, err)
		_, err = connection.Exec(t.Context(), `SELECT FROM migrated`)
		require.NoError(t, err)
		require.NoError(t, connection.Close(t.Context()))
	}
	require.Equal(t, 1, migrations)
}

func TestRepositoryKeepsEveryName(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"plain.txt":         "a\r\nb\n",
		"with space/ü.txt":  "",
		"quote\"back\\.txt": "x",
		"new\nline":         "y",
		"bytes\xff":         "z",
	}
	repo := stack.Load(t).Repository(t, "names", files)
	require.Len(t, repo.Files(t, repo.Baseline), len(files))
	for path, content := range files {
		require.Equal(t, content, repo.File(t, "main", path), "%q", path)
	}
	second := repo.Commit(t, "refs/heads/main", "More", map[string]string{"plain.txt": "c"})
	require.Equal(t, []string{second, repo.Baseline}, repo.Log(t, "main"))
	require.Len(t, repo.Files(t, "main"), len(files))
}

func TestGitServersAskForCredentialsAndTakePushes(t *testing.T) {
	t.Parallel()
	s := stack.Load(t)
	password := s.Secret(t, s.Git.PasswordFile)
	askpass := filepath.Join(t.TempDir(), "askpass")
	require.NoError(t, os.WriteFile(askpass, []byte("#!/bin/sh\ncase $1 in Username*) echo "+s.Git.Username+";; *) cat "+s.Git.PasswordFile+";; esac\n"), 0o700))
	require.NotEmpty(t, password)
	ssh := "ssh -o IdentitiesOnly=yes -o StrictHostKeyChecking=yes -o UserKnownHostsFile=" + s.Git.KnownHostsFile + " -i " + s.Git.SSHKeyFile
	stranger := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(stranger, nil, 0o600))

	for name, way := range map[string]struct {
		url     func(stack.RemoteRepo) string
		with    []string
		without []string
	}{
		"http":  {func(r stack.RemoteRepo) string { return r.HTTPURL }, []string{"GIT_ASKPASS=" + askpass}, nil},
		"https": {func(r stack.RemoteRepo) string { return r.HTTPSURL }, []string{"GIT_ASKPASS=" + askpass, "GIT_SSL_CAINFO=" + s.Git.CAFile}, nil},
		"ssh":   {func(r stack.RemoteRepo) string { return r.SSHURL }, []string{"GIT_SSH_COMMAND=" + ssh}, []string{"GIT_SSH_COMMAND=ssh -F none -o BatchMode=yes -o IdentitiesOnly=yes -i " + stranger}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			repo := s.Repository(t, "push", map[string]string{"a": "1"})
			clone := filepath.Join(t.TempDir(), "clone")
			require.Error(t, client(t, way.without, "clone", way.url(repo), clone))
			require.NoError(t, client(t, way.with, "clone", way.url(repo), clone))
			// Larger than git sends without chunks.
			large := make([]byte, 3<<20)
			_, err := rand.Read(large)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(clone, "large"), large, 0o600))
			require.NoError(t, client(t, nil, "-C", clone, "add", "large"))
			require.NoError(t, client(t, nil, "-C", clone, "-c", "user.name=n", "-c", "user.email=e@example.com", "commit", "-m", "Large"))
			require.Error(t, client(t, way.without, "-C", clone, "push", way.url(repo), "HEAD:refs/heads/other"))
			require.NoError(t, client(t, way.with, "-C", clone, "push", "--atomic", way.url(repo), "HEAD:main", "HEAD:refs/harness/x"))
			require.Equal(t, string(large), repo.File(t, "refs/harness/x", "large"))
		})
	}
}
