package stack

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// maxConnections is generous: many test packages and many workers share the cluster.
const maxConnections = 400

// startPostgres makes a cluster of the stack's own in the data folder and serves it on loopback.
func (s *State) startPostgres(ctx context.Context) error {
	s.Postgres = Postgres{Host: "127.0.0.1", User: "harness", PasswordFile: s.file("postgres.password"), URLFile: s.file("postgres.url")}
	process, err := startCluster(ctx, s.data("postgres"), s.log("postgres"), &s.Postgres)
	s.Processes["postgres"] = process
	if err != nil {
		return err
	}
	connection, err := s.Postgres.connect(ctx, "postgres")
	if err != nil {
		return err
	}
	defer connection.Close(context.WithoutCancel(ctx))
	if _, err := connection.Exec(ctx, `CREATE DATABASE harness TEMPLATE template0`); err != nil {
		return err
	}
	address, err := s.Postgres.URL("harness")
	if err != nil {
		return err
	}
	return writeFile(s.Postgres.URLFile, []byte(address+"\n"))
}

// startCluster initialises a cluster in the folder and starts its server; it fills in the port.
func startCluster(ctx context.Context, folder, logFile string, p *Postgres) (Process, error) {
	password := rand.Text()
	if err := writeFile(p.PasswordFile, []byte(password+"\n")); err != nil {
		return Process{}, err
	}
	owner, err := databaseOwner()
	if err != nil {
		return Process{}, err
	}
	// Left over from a stack that was killed while starting.
	if err := os.RemoveAll(folder); err != nil {
		return Process{}, err
	}
	if err := owner.mkdir(folder); err != nil {
		return Process{}, err
	}
	// initdb runs as another user, who cannot read the state folder.
	given := filepath.Join(folder, "password")
	if err := owner.writeFile(given, []byte(password+"\n")); err != nil {
		return Process{}, err
	}
	data := filepath.Join(folder, "data")
	initialise, err := owner.command(ctx, "initdb", "--pgdata", data, "--username", p.User, "--pwfile", given,
		"--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C.UTF-8", "--no-sync")
	if err != nil {
		return Process{}, err
	}
	if output, err := initialise.CombinedOutput(); err != nil {
		return Process{}, fmt.Errorf("initdb: %w\n%s", err, output)
	}
	if err := os.Remove(given); err != nil {
		return Process{}, err
	}
	if p.Port, err = freePort(); err != nil {
		return Process{}, err
	}
	return serveCluster(ctx, owner, folder, logFile, *p)
}

// serveCluster starts the server of an initialised cluster and waits until it answers.
func serveCluster(ctx context.Context, owner account, folder, logFile string, p Postgres) (Process, error) {
	settings := []string{
		"listen_addresses=" + p.Host,
		"port=" + strconv.Itoa(p.Port),
		"unix_socket_directories=" + folder,
		"max_connections=" + strconv.Itoa(maxConnections),
		"shared_buffers=128MB",
		"fsync=off",
		"full_page_writes=off",
		"log_min_messages=fatal",
		"log_min_error_statement=panic", // a statement may hold a value that a test planted
		"timezone=UTC",
		"log_timezone=UTC",
	}
	arguments := []string{"-D", filepath.Join(folder, "data")}
	for _, setting := range settings {
		arguments = append(arguments, "-c", setting)
	}
	// Not bound to ctx: the server outlives the call.
	serve, err := owner.command(context.WithoutCancel(ctx), "postgres", arguments...)
	if err != nil {
		return Process{}, err
	}
	process, err := launch(serve, logFile)
	if err != nil {
		return process, err
	}
	return process, await(ctx, process, logFile, 60*time.Second, func(ctx context.Context) error {
		connection, err := p.connect(ctx, "postgres")
		if err != nil {
			return err
		}
		return connection.Close(ctx)
	})
}

// URL is the address of a database of the cluster, the superuser's password included.
func (p Postgres) URL(database string) (string, error) {
	password, err := os.ReadFile(p.PasswordFile)
	if err != nil {
		return "", err
	}
	address := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(p.User, strings.TrimSpace(string(password))),
		Host:     net.JoinHostPort(p.Host, strconv.Itoa(p.Port)),
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}
	return address.String(), nil
}

func (p Postgres) connect(ctx context.Context, database string) (*pgx.Conn, error) {
	address, err := p.URL(database)
	if err != nil {
		return nil, err
	}
	return pgx.Connect(ctx, address)
}

// stopPostgres ends the server by a fast shutdown: it drops all connections.
func stopPostgres(process Process) error { return process.Stop(syscall.SIGINT, 15*time.Second) }

// account is the system user the server runs as; the zero value is the current one.
type account struct{ credential *syscall.Credential }

// databaseOwner is the user postgres for root, whom the server refuses, and the current user otherwise.
func databaseOwner() (account, error) {
	if os.Geteuid() != 0 {
		return account{}, nil
	}
	postgres, err := user.Lookup("postgres")
	if err != nil {
		return account{}, err
	}
	uid, uidErr := strconv.ParseUint(postgres.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(postgres.Gid, 10, 32)
	if err := errors.Join(uidErr, gidErr); err != nil {
		return account{}, err
	}
	return account{&syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
}

func (a account) give(path string) error {
	if a.credential == nil {
		return nil
	}
	return os.Chown(path, int(a.credential.Uid), int(a.credential.Gid))
}

func (a account) mkdir(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil {
		return err
	}
	return a.give(path)
}

func (a account) writeFile(path string, data []byte) error {
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return err
	}
	return a.give(path)
}

// command is a program of the Postgres server package, run as the account.
func (a account) command(ctx context.Context, program string, arguments ...string) (*exec.Cmd, error) {
	path, err := postgresProgram(program)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, path, arguments...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8", "TZ=UTC"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: a.credential}
	return cmd, nil
}

// postgresProgram finds a server program; Debian keeps them off the PATH, one folder per version.
func postgresProgram(program string) (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + program)
	if err != nil {
		return "", err
	}
	if len(found) > 0 {
		return found[len(found)-1], nil
	}
	return exec.LookPath(program)
}

// freePort is a TCP port of loopback that nobody listens on now.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return listener.Addr().(*net.TCPAddr).Port, listener.Close()
}
