package canary_test

import (
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rein-aharness/harness"
	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/profiles"
	"github.com/rein-aharness/harness/queue"
	"github.com/rein-aharness/harness/rein/credential"
	"github.com/rein-aharness/harness/tests/deployment"
	"github.com/rein-aharness/harness/tests/stack"
)

// within bounds what has no bound of its own in a test.
const within = 60 * time.Second

// TestMain sees to it that a worker that crashes on purpose leaves no core file.
func TestMain(m *testing.M) {
	if err := syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// scene is a deployment with canaries everywhere: in its sessions, and what it lives on itself.
type scene struct {
	*deployment.Deployment
	h        *harness.Harness // to look and to publish profiles; it serves no queue
	repo     stack.RemoteRepo
	vault    *recorder
	hook     *receiver
	logs     logs
	temp     string // where its workers put temporary files
	session  []canary
	deployed []canary
	routes   []credential.Route
	workers  []*deployment.Process
}

// set makes a scene. Leases are short, so that a lost one is settled soon.
func set(t *testing.T) *scene {
	t.Helper()
	hook := receive(t)
	d := deployment.New(t, deployment.Settings{
		TTLSeconds: 4, HeartbeatSeconds: 1, Concurrency: 3,
		Extra: fmt.Sprintf("deliveries: [{name: hook, url: %q, key_file: hook.key}]\n", hook.URL),
	})
	s := &scene{Deployment: d, hook: hook, logs: logsFromNow(t, d.Stack), temp: t.TempDir(), session: planted()}
	key := rand.Text()
	require.NoError(t, os.WriteFile(filepath.Join(d.Dir, "hook.key"), []byte(key), 0o600))
	s.vault = record(t, d.Stack.Vault.Address)
	s.through(t, s.vault.URL)
	s.deployed = append(deployed(t, d), canary{"webhook key", key})
	s.routes = routes(t, d, s.session)
	var err error
	s.h, err = harness.Open(t.Context(), d.Config, harness.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.h.Close(t.Context())) })
	s.repo = d.Stack.Repository(t, "canary", map[string]string{".harness.yaml": deployment.Manifest, "a.txt": "as it is\n"})
	return s
}

// through leads the deployment to Vault by another address.
func (s *scene) through(t *testing.T, address string) {
	t.Helper()
	data, err := os.ReadFile(s.File)
	require.NoError(t, err)
	changed := strings.Replace(string(data), s.Stack.Vault.Address, address, 1)
	require.NotEqual(t, string(data), changed)
	require.NoError(t, os.WriteFile(s.File, []byte(changed), 0o600))
	s.Config, err = harness.ReadConfig(s.File)
	require.NoError(t, err)
}

// profile is a ready profile whose session has the canaries and does what the toolbox is told.
func (s *scene) profile(t *testing.T, name string, commands ...[]string) profiles.Ref {
	t.Helper()
	p := s.Profile(t, name, "hostile", argv(commands)...)
	p.Credentials = s.routes
	return s.Vouch(t, s.h, p)
}

func argv(commands [][]string) []string {
	all := []string{"/usr/local/bin/toolbox"}
	for i, command := range commands {
		if i > 0 {
			all = append(all, ";")
		}
		all = append(all, command...)
	}
	return all
}

var emitted = regexp.MustCompile(`run ([0-9a-f-]{36}) emitted`)

// emit emits a run onto a branch of its own, by the command.
func (s *scene) emit(t *testing.T, name string, ref profiles.Ref) string {
	t.Helper()
	definition := filepath.Join(s.Dir, name+".definition.yaml")
	require.NoError(t, os.WriteFile(definition, fmt.Appendf(nil, `
version: 1
name: canary
repository: %s
base_ref: refs/heads/main
target_ref: refs/heads/%s
task: Do what the profile says.
profile: %s
grant: {paths: ["**"], symlinks: true, protected: []}
`, s.repo.HTTPURL, name, ref), 0o600))
	output, code := s.command(t, "emit", "--log-level", "debug", "-f", definition, "--trigger-key", name)
	require.Zero(t, code, "%s", output)
	match := emitted.FindStringSubmatch(output)
	require.NotNil(t, match, "%s", output)
	return match[1]
}

// command runs a command to its end and gives all that it wrote.
func (s *scene) command(t *testing.T, arguments ...string) (output string, code int) {
	t.Helper()
	p := s.Start(t, "operator", arguments...)
	code = p.Ended(t, within)
	return p.Output(), code
}

// worker starts a worker that says all it has to say, also when it crashes.
func (s *scene) worker(t *testing.T, name string, format ...string) *deployment.Process {
	t.Helper()
	p := s.Worker(t, name, deployment.WorkerSettings{
		Arguments:   append([]string{"--log-level", "debug"}, format...),
		Environment: []string{"TMPDIR=" + s.temp, "GOTRACEBACK=crash"},
	})
	s.workers = append(s.workers, p)
	return p
}

// open opens the deployment with all its parts in this process.
func (s *scene) open(t *testing.T) *harness.Harness {
	t.Helper()
	return s.Open(t, harness.Options{})
}

func (s *scene) run(t *testing.T, id string) queue.Run {
	t.Helper()
	run, err := s.h.Store().Run(t.Context(), id)
	require.NoError(t, err)
	return run
}

// logged waits until a piece of the session's log is kept.
func (s *scene) logged(t *testing.T, id string) {
	t.Helper()
	eventually(t, func() bool {
		pieces, err := s.h.Store().SessionLog(t.Context(), id, 0, 0)
		require.NoError(t, err)
		return len(pieces) > 0
	})
}

func (s *scene) final(t *testing.T, id string) queue.Run {
	t.Helper()
	eventually(t, func() bool { return s.run(t, id).State.Final() })
	return s.run(t, id)
}

func eventually(t *testing.T, is func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !is(); time.Sleep(25 * time.Millisecond) {
		require.True(t, time.Now().Before(end), "not within %s", within)
	}
}

// inSession waits until the session's process runs, and looks at it from outside while it has its credentials: at what the engine
// shows, and at the arguments and environments of all processes of the machine. The one place for a value is the environment of the
// session's own process, which is the declared target of two routes and of no other.
func (s *scene) inSession(t *testing.T, id string, worker *deployment.Process, argv []string) {
	t.Helper()
	var own process
	eventually(t, func() bool {
		if run := s.run(t, id); run.State.Final() {
			said, _ := s.command(t, "runs", "logs", id)
			require.FailNow(t, "the session is over", "%s %s: %s", run.FailedStage, run.Code, said)
		}
		all := snapshot(t)
		i := slices.IndexFunc(all, func(p process) bool { return slices.Equal(p.arguments, argv) })
		if i >= 0 {
			own = all[i]
		}
		return i >= 0
	})
	require.Equal(t, evidence.StageSession, s.run(t, id).Stage)
	require.Equal(t, []string{"publish", "session"}, s.vault.live(t, s.Stack.VaultRoot(t), id))

	outside := searchFor(s.unique()...)
	first := outside.inspect(t, s.Stack, id)
	require.Len(t, first, 1)
	holders := outside.processes(t, func(p process) bool { return p.pid != own.pid })
	require.Empty(t, holders)
	outside.nothing(t, "container", "volume", "arguments", "environments")

	require.Equal(t, first[0], own.parent)
	inside := searchFor(s.unique()...)
	inside.processes(t, func(p process) bool { return p.pid == own.pid })
	require.NotEmpty(t, inside.found, "the declared target of a route")
	for _, found := range inside.found {
		require.Regexp(t, "^environments: (token|lines) ", found)
	}

	ours := searchFor(s.deployed...)
	ours.inspect(t, s.Stack, id)
	ours.processes(t, func() func(process) bool {
		belongs := family(t, worker.PID(), first[0])
		return func(p process) bool {
			require.False(t, p.closed && belongs(p), "%q", p.arguments)
			return belongs(p)
		}
	}())
	ours.nothing(t, "container", "volume", "arguments", "environments")
}

// unique are the canaries that no other deployment on the stack has.
func (s *scene) unique() []canary { return append(slices.Clone(s.session), s.vault.canaries()...) }

// nowhere requires that no canary is anywhere that the run has left something, and that none of its tokens lives.
func (s *scene) nowhere(t *testing.T, ids ...string) {
	t.Helper()
	eventually(t, func() bool { return s.hook.count() >= len(ids) })
	root := s.Stack.VaultRoot(t)
	for _, id := range ids {
		eventually(t, func() bool { return len(s.vault.live(t, root, id)) == 0 })
		require.Empty(t, s.Stack.LiveTokens(t, "harness_run", id))
	}
	for _, w := range s.workers {
		if !w.Over() {
			w.Signal(t, syscall.SIGTERM)
			require.Zero(t, w.Ended(t, within), "%s", w.Name)
		}
	}
	require.Greater(t, len(s.vault.canaries()), 2, "tokens of worker, session and publisher")
	all := searchFor(append(s.unique(), s.deployed...)...)
	for _, id := range ids {
		for _, arguments := range [][]string{
			{"runs", "show", id},
			{"runs", "show", id, "--json"},
			{"runs", "logs", id},
			{"runs", "logs", id, "--json"},
			{"evidence", "show", id},
			{"evidence", "show", id, "--json"},
			{"evidence", "export", id},
			{"evidence", "verify", id},
			{"runs", "list", "--json"},
			{"doctor"},
		} {
			output, _ := s.command(t, append(arguments, "--log-level", "debug")...)
			all.look(strings.Join(arguments[:min(2, len(arguments))], " "), []byte(output))
		}
	}
	for _, w := range s.workers {
		all.look("a worker's output", []byte(w.Output()))
	}
	url, err := s.Config.Database.URL()
	require.NoError(t, err)
	all.tables(t, url)
	all.files(t, "remote", s.repo.Dir)
	// The folder has the workers' caches. What is left out are the declared homes of the database's URL and the webhook's key.
	all.files(t, "deployment", s.Dir, "database.url", "hook.key")
	all.files(t, "temporary files", s.temp)
	all.look("webhook", s.hook.received())
	all.nothing(t, "runs show", "runs logs", "evidence show", "evidence export", "evidence verify", "runs list", "a worker's output", "remote",
		"objects of remote", "deployment", "objects of deployment", "webhook", "table ops_run", "table run_fact", "table session_log",
		"table run_token", "table river_job")
	parts := searchFor(s.unique()...)
	parts.logs(t, s.logs)
	parts.nothing(t)
}

// receiver is a webhook that keeps what it is sent and refuses it, so that the refusal is noted as well.
type receiver struct {
	*httptest.Server
	mu   sync.Mutex
	data []byte
	n    int
}

func receive(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.n++
		r.data = fmt.Appendf(r.data, "%v %v %s %v\n", request.URL, request.Header, body, err)
		http.Error(w, "refused: "+string(body), http.StatusInternalServerError)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n
}

func (r *receiver) received() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.data)
}
