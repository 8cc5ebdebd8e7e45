package stack_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/tests/stack"
)

func TestPrivatePostgresSurvivesItsCrash(t *testing.T) {
	t.Parallel()
	shared := stack.Load(t)
	private := shared.Private(t, stack.PartPostgres)
	require.NotEqual(t, shared.Postgres.Port, private.Postgres.Port)
	url := private.Database(t)
	connection, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	_, err = connection.Exec(t.Context(), `CREATE TABLE kept ()`)
	require.NoError(t, err)

	private.Signal(t, stack.PartPostgres, syscall.SIGQUIT)
	require.Eventually(t, func() bool { return connection.Ping(t.Context()) != nil }, 10*time.Second, 10*time.Millisecond)
	private.Restart(t, stack.PartPostgres)

	connection, err = pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	_, err = connection.Exec(t.Context(), `SELECT FROM kept`)
	require.NoError(t, err)
	require.NoError(t, connection.Close(t.Context()))
}

func TestPrivateEngineHasTheImagesAndIsGoneAfterTheTest(t *testing.T) {
	t.Parallel()
	shared := stack.Load(t)
	var folder string
	t.Run("use", func(t *testing.T) {
		private := shared.Private(t, stack.PartDocker)
		folder = private.Data
		require.NotEqual(t, shared.DockerHost(), private.DockerHost())
		require.Equal(t, shared.Image(t, "hostile"), private.Image(t, "hostile"))
		require.Contains(t, docker(t, private, "/images/json"), private.Image(t, "hostile"))
		private.Signal(t, stack.PartDocker, syscall.SIGKILL)
		private.Restart(t, stack.PartDocker)
		require.Contains(t, docker(t, private, "/images/json"), private.Image(t, "hostile"))
		private.Signal(t, stack.PartDocker, syscall.SIGSTOP)
	})
	require.NoDirExists(t, folder)
	require.Contains(t, docker(t, shared, "/images/json"), shared.Image(t, "hostile"))
}

func TestPrivateVaultIsConfiguredAsTheSharedOne(t *testing.T) {
	t.Parallel()
	shared := stack.Load(t)
	authority := shared.Secret(t, shared.Git.SSHCAFile)
	private := shared.Private(t, stack.PartVault)
	require.NotEqual(t, shared.Vault.Address, private.Vault.Address)
	_, err := session(t, worker(t, private), private.Vault.TokenRole, nil, "harness-session-demo")
	require.NoError(t, err)
	require.Equal(t, authority, shared.Secret(t, shared.Git.SSHCAFile))
}

// The shared parts have every other test on them.
func TestOnlyPrivatePartsMayBeBroken(t *testing.T) {
	t.Parallel()
	broken := &fatal{TB: t}
	func() {
		defer func() { _ = recover() }()
		stack.Load(t).Signal(broken, stack.PartPostgres, syscall.SIGKILL)
	}()
	require.True(t, broken.called)
	stack.Load(t)
}

// fatal notes that a helper ended the test, and ends the helper alone.
type fatal struct {
	testing.TB
	called bool
}

func (f *fatal) Fatal(...any) { f.called = true; panic("fatal") }
