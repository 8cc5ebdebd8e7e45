package queue_test

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/queue"
)

// throughPooler gives the URL of the database by way of a pgbouncer in transaction mode. Like Postgres it refuses to run as root.
func throughPooler(t *testing.T, database string) string {
	t.Helper()
	u, err := url.Parse(database)
	require.NoError(t, err)
	owner, err := user.Lookup("postgres")
	require.NoError(t, err, "the stack's packages are missing: run make up")
	uid, err := strconv.Atoi(owner.Uid)
	require.NoError(t, err)
	gid, err := strconv.Atoi(owner.Gid)
	require.NoError(t, err)
	dir, err := os.MkdirTemp("", "pooler")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	require.NoError(t, os.Chown(dir, uid, gid))
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		require.NoError(t, os.Chown(path, uid, gid))
		return path
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().(*net.TCPAddr)
	require.NoError(t, listener.Close())
	password, _ := u.User.Password()
	users := write("users", fmt.Sprintf("%q %q\n", u.User.Username(), password))
	config := write("pgbouncer.ini", fmt.Sprintf(`[databases]
* = host=%s port=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = plain
auth_file = %s
pool_mode = transaction
default_pool_size = 6
`, u.Hostname(), u.Port(), address.Port, users))
	pooler := exec.Command("pgbouncer", "-q", config)
	pooler.SysProcAttr = &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, Pdeathsig: syscall.SIGKILL,
	}
	require.NoError(t, pooler.Start(), "the stack's packages are missing: run make up")
	t.Cleanup(func() {
		_ = pooler.Process.Kill()
		_ = pooler.Wait()
	})
	u.Host = address.String()
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", u.Host)
		if err == nil {
			conn.Close()
		}
		return err == nil
	}, 10*time.Second, 20*time.Millisecond)
	return u.String()
}

// CASES 4, 5
func TestEverythingWorksThroughAPoolerInTransactionMode(t *testing.T) {
	t.Parallel()
	direct := database(t)
	s := open(t, throughPooler(t, direct), func(c *queue.Config) { c.TransactionPooling = true })
	serve(t, s, handler{execute: executes, reconcile: settles})
	for i := range 5 {
		await(t, s, emit(t, s, request(fmt.Sprintf("pooled-%d", i))).ID, evidence.StateCompleted)
	}
	lost := emit(t, s, request("lost"))
	require.NoError(t, s.Cancel(t.Context(), lost.ID, "ada", ""))
	await(t, s, lost.ID, evidence.StateFailed, evidence.StateCompleted)
}
