// Command demo runs the main job on the stack that is up: a codemod changes a real Go module, unattended, and the change lands as
// one commit with evidence that verifies. Then the same occasion again, which changes nothing, and a session that leaves its grant,
// which is refused. Everything is done with the binary, as an operator would do it.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/rein-aharness/harness/tests/stack"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// demo is one run of the demonstration, in a folder of its own that it removes, unless KEEP=1 leaves it for as long as the stack.
type demo struct {
	stack  *stack.State
	dir    string // configuration, profile, definitions
	binary string
	repo   string // the bare repository on disk
	url    string
	key    string // the trigger key of this demonstration's occasion
	keep   bool
	step   int
}

func run(ctx context.Context) (err error) {
	began := time.Now()
	d := &demo{key: "demo-" + began.UTC().Format("20060102T150405Z"), keep: os.Getenv("KEEP") == "1"}
	if err := d.prepare(ctx); err != nil {
		return err
	}
	if !d.keep {
		defer func() { err = errors.Join(err, os.RemoveAll(d.dir), os.RemoveAll(d.repo)) }()
	}
	for _, part := range []struct {
		title string
		do    func(context.Context) error
	}{
		{"Build the harness", d.build},
		{"Bring the database to the schema, publish the profile, check the whole chain of it", d.publish},
		{"A worker serves the queue; emit a run and follow it to its end", d.work},
	} {
		if err := d.say(part.title, ctx, part.do); err != nil {
			return err
		}
	}
	fmt.Printf("\nDone in %s. The chain held: one commit, evidence that verifies, no second commit, nothing outside the grant.\n",
		time.Since(began).Round(100*time.Millisecond))
	if d.keep {
		fmt.Printf("\nAll of it is kept until make down. To go on with it:\n\n   export HARNESS_CONFIG=%s PATH=%s:$PATH\n   harness runs list\n",
			filepath.Join(d.dir, "harness.yaml"), d.dir)
	}
	return nil
}

func (d *demo) say(title string, ctx context.Context, do func(context.Context) error) error {
	d.step++
	fmt.Printf("\n%d. %s\n\n", d.step, title)
	if err := do(ctx); err != nil {
		return fmt.Errorf("%s: %w", strings.ToLower(title[:1])+title[1:], err)
	}
	return nil
}

// prepare takes a copy of the demo repository that nobody else works on, and writes configuration, profile and definitions.
func (d *demo) prepare(ctx context.Context) error {
	folder, err := stack.Folder()
	if err != nil {
		return err
	}
	if d.stack, err = stack.Read(folder); err != nil {
		return err
	}
	parent := "" // the system's
	if d.keep {
		parent = d.stack.Data // goes with the stack
	}
	if d.dir, err = os.MkdirTemp(parent, "harness-demo-"); err != nil {
		return err
	}
	d.binary = filepath.Join(d.dir, "harness")
	name := d.key + ".git"
	d.repo, d.url = filepath.Join(d.stack.Git.Root, name), d.stack.Git.HTTPS+"/"+name
	if err := stack.CreateRepository(ctx, d.repo); err != nil {
		return err
	}
	original := filepath.Join(d.stack.Git.Root, d.stack.Demo.Name)
	for _, branch := range []string{"main", "narrow"} {
		if _, err := stack.Git(ctx, d.repo, nil, "fetch", "--quiet", original, d.stack.Demo.Baseline+":refs/heads/"+branch); err != nil {
			return err
		}
	}
	return d.write()
}

// build builds the release binary.
func (d *demo) build(ctx context.Context) error {
	checkout, err := stack.Checkout()
	if err != nil {
		return err
	}
	command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", d.binary, "./cmd/harness")
	command.Dir, command.Env = checkout, append(os.Environ(), "CGO_ENABLED=0")
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	if err := command.Run(); err != nil {
		return err
	}
	fmt.Println("   harness is built: one static binary, for workers, operators and as the init inside the sandbox")
	return nil
}

func (d *demo) publish(ctx context.Context) error {
	if err := d.harness(ctx, 0, "migrate"); err != nil {
		return err
	}
	if err := d.harness(ctx, 0, "profiles", "publish", "--operator", "demo", filepath.Join(d.dir, "gofumpt.yaml")); err != nil {
		return err
	}
	return d.harness(ctx, 0, "profiles", "check", "gofumpt@1.0.0", "--repository", d.url)
}

// work is what happens while a worker runs.
func (d *demo) work(ctx context.Context) (err error) {
	worker, err := d.start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, worker.stop()) }()
	run, err := d.emit(ctx, 0, "gofumpt-all.yaml", d.key)
	if err != nil {
		return err
	}
	for _, part := range []struct {
		title string
		do    func(context.Context) error
	}{
		{"What the operator sees of it", func(ctx context.Context) error { return d.harness(ctx, 0, "runs", "show", run) }},
		{"The commit on the remote, as git sees it", d.log},
		{"Its evidence, recomputed", func(ctx context.Context) error { return d.harness(ctx, 0, "evidence", "verify", run) }},
		{"The same occasion again: the same run, and nothing changes", func(ctx context.Context) error { return d.again(ctx, run) }},
		{"A session that touches files outside its grant is refused", d.refused},
	} {
		if err := d.say(part.title, ctx, part.do); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) log(ctx context.Context) error {
	output, err := stack.Git(ctx, d.repo, nil, "log", "--stat", "-1", "refs/heads/main")
	if err != nil {
		return err
	}
	fmt.Print(indent(string(output)))
	count, err := stack.Git(ctx, d.repo, nil, "rev-list", "--count", d.stack.Demo.Baseline+"..refs/heads/main")
	if err != nil {
		return err
	}
	if n := strings.TrimSpace(string(count)); n != "1" {
		return fmt.Errorf("%s commits stand on the baseline, and not one", n)
	}
	return nil
}

func (d *demo) again(ctx context.Context, run string) error {
	before, err := d.refs(ctx)
	if err != nil {
		return err
	}
	same, err := d.emit(ctx, 0, "gofumpt-all.yaml", d.key)
	if err != nil {
		return err
	}
	after, err := d.refs(ctx)
	if err != nil {
		return err
	}
	if same != run || before != after {
		return fmt.Errorf("run %s gave run %s, or the remote changed", run, same)
	}
	fmt.Println("   the remote is as it was, ref for ref")
	return nil
}

// exitNotApplied is the exit code of a run whose change was refused.
const exitNotApplied = 6

func (d *demo) refused(ctx context.Context) error {
	if _, err := d.emit(ctx, exitNotApplied, "gofumpt-narrow.yaml", d.key+"-narrow"); err != nil {
		return err
	}
	tip, err := stack.Git(ctx, d.repo, nil, "rev-parse", "refs/heads/narrow")
	if err != nil {
		return err
	}
	if strings.TrimSpace(string(tip)) != d.stack.Demo.Baseline {
		return errors.New("the branch moved")
	}
	fmt.Println("   the branch is where it was; exit code 6 says that nothing was applied")
	return nil
}

// refs are the branches of the remote. A fence that a run leaves behind is not among them.
func (d *demo) refs(ctx context.Context) (string, error) {
	output, err := stack.Git(ctx, d.repo, nil, "for-each-ref", "refs/heads")
	return string(output), err
}

// emit emits a run of a definition, follows it, and returns its id.
func (d *demo) emit(ctx context.Context, want int, definition, key string) (string, error) {
	arguments := []string{"emit", "-f", filepath.Join(d.dir, definition), "--trigger-key", key}
	if err := d.harness(ctx, want, append(arguments, "--wait")...); err != nil {
		return "", err
	}
	command := d.command(ctx, append(arguments, "--json")...)
	command.Stdout = nil
	output, err := command.Output()
	if err != nil {
		return "", err
	}
	return field(output, "id")
}

// harness shows a command and runs it; it must end with the code wanted.
func (d *demo) harness(ctx context.Context, want int, arguments ...string) error {
	fmt.Printf("   $ harness %s\n", strings.Join(arguments, " "))
	command := d.command(ctx, arguments...)
	output, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	command.Stderr = command.Stdout
	if err := command.Start(); err != nil {
		return err
	}
	for lines := bufio.NewScanner(output); lines.Scan(); {
		fmt.Println("   " + lines.Text())
	}
	err = command.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return err
	}
	if got := command.ProcessState.ExitCode(); got != want {
		return fmt.Errorf("harness %s ended with %d, not with %d", arguments[0], got, want)
	}
	return nil
}

func (d *demo) command(ctx context.Context, arguments ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, d.binary, arguments...)
	command.Env = append(os.Environ(), "HARNESS_CONFIG="+filepath.Join(d.dir, "harness.yaml"))
	command.Stderr = os.Stderr
	return command
}

func indent(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString("   " + line)
	}
	return out.String()
}
