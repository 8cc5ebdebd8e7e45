package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/queue"
	"github.com/rein-aharness/harness/tests/stack"
)

// bench is a deployment of which only the database is there, and runs in it.
type bench struct {
	t      *testing.T
	config string
	store  *queue.Store
}

func newBench(t *testing.T) *bench {
	t.Helper()
	dir := t.TempDir()
	url := stack.Load(t).DatabaseFrom(t, "cli", queue.Migrate)
	data, err := os.ReadFile("testdata/harness.yaml")
	require.NoError(t, err)
	b := &bench{t: t, config: filepath.Join(dir, "harness.yaml")}
	require.NoError(t, os.WriteFile(b.config, data, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "database.url"), []byte(url), 0o600))
	b.store, err = queue.Open(t.Context(), queue.Config{URL: url, TTL: 30 * time.Second, Beat: 10 * time.Second, Margin: time.Second})
	require.NoError(t, err)
	t.Cleanup(b.store.Close)
	return b
}

// emit makes a run of the definition in testdata, which nobody serves.
func (b *bench) emit(key string, change func(*queue.Request)) queue.Run {
	b.t.Helper()
	data, err := os.ReadFile("testdata/definition.yaml")
	require.NoError(b.t, err)
	definition, err := queue.ParseDefinition(data)
	require.NoError(b.t, err)
	r := definition.Request(queue.Occasion{TriggerKey: key})
	if change != nil {
		change(&r)
	}
	digest := func(c string) string { return "sha256:" + strings.Repeat(c, 64) }
	_, profile, _ := strings.Cut(r.Profile, "#")
	run, created, err := b.store.Emit(b.t.Context(), r, queue.Emission{Pin: func(context.Context) (queue.Pins, error) {
		return queue.Pins{
			Repository: "git.example/team/module", Baseline: strings.Repeat("a", 40), Profile: profile, Rein: digest("2"), Model: digest("3"),
			Tools: digest("4"), Sandbox: digest("5"), Credentials: digest("6"),
		}, nil
	}})
	require.NoError(b.t, err)
	require.True(b.t, created)
	return run
}

// claim takes a run's lease, for a worker that does nothing with it.
func (b *bench) claim(run string) *queue.Lease {
	b.t.Helper()
	lease, err := b.store.Claim(b.t.Context(), run, queue.Claimant{WorkerID: "w", Nonce: "n", Engine: "e"})
	require.NoError(b.t, err)
	return lease
}

func (b *bench) succeed(args ...string) string {
	b.t.Helper()
	return succeed(b.t, append(args, "--config", b.config)...)
}

func (b *bench) command(args ...string) (evidence.ExitCode, string, string) {
	b.t.Helper()
	return command(b.t, append(args, "--config", b.config)...)
}

// A5: the label of a proof shows wherever its run is shown.
func TestProofLabelShowsInEveryView(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	run := b.emit("k", func(r *queue.Request) { r.Proof = "first-light" })
	for _, view := range [][]string{
		{"runs", "list"},
		{"runs", "list", "--json"},
		{"runs", "show", run.ID},
		{"runs", "show", run.ID, "--json"},
	} {
		require.Contains(t, b.succeed(view...), "first-light", "%v", view)
	}
}

func TestRunsAreListedByWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first, second := b.emit("k1", nil), b.emit("k2", func(r *queue.Request) { r.Definition = "other" })
	ids := func(args ...string) (ids []string) {
		var views []runView
		require.NoError(t, json.Unmarshal([]byte(b.succeed(append([]string{"runs", "list", "--json"}, args...)...)), &views))
		for _, v := range views {
			ids = append(ids, v.ID)
		}
		return ids
	}
	require.Equal(t, []string{second.ID, first.ID}, ids())
	require.Equal(t, []string{second.ID}, ids("--limit", "1"))
	require.Equal(t, []string{first.ID}, ids("--before", second.ID))
	require.Equal(t, []string{second.ID}, ids("--definition", "other"))
	require.Equal(t, []string{second.ID, first.ID}, ids("--repository", "https://git.example/team/module.git"))
	require.Empty(t, ids("--repository", "git.example/none"))
	require.Empty(t, ids("--state", "completed", "--state", "failed"))
	require.Equal(t, []string{second.ID, first.ID}, ids("--state", "created"))
	require.Empty(t, ids("--stuck"))
}

func TestRunIsShownWithItsContractLeaseAndTimeline(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	run := b.emit("k", nil)
	b.claim(run.ID)
	text := b.succeed("runs", "show", run.ID)
	for _, part := range []string{run.ID, run.ContractDigest, "git.example/team/module", strings.Repeat("a", 40), "w/n", "epoch 1", "claimed: by w/n on engine e"} {
		require.Contains(t, text, part)
	}
	var detail runDetail
	require.NoError(t, json.Unmarshal([]byte(b.succeed("runs", "show", run.ID, "--json")), &detail))
	require.Equal(t, run.ID, detail.Run.ID)
	require.Equal(t, "running", detail.Run.State)
	require.Equal(t, int(evidence.ExitUnknown), detail.Run.ExitCode)
	require.NotNil(t, detail.Run.Lease.ExpiresAt)
	require.NotNil(t, detail.Pins)
	require.Len(t, detail.Timeline, 2)
	require.Nil(t, detail.Commit)
	require.Len(t, strings.Split(strings.TrimSpace(b.succeed("evidence", "show", run.ID)), "\n"), 5)
}

// A12: a contract that was altered in the database is shown for what it is.
func TestAlteredContractIsShownAsAltered(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	run := b.emit("k", nil)
	_, err := b.store.Pool().Exec(t.Context(), `ALTER TABLE ops_run DISABLE TRIGGER ALL`)
	require.NoError(t, err)
	_, err = b.store.Pool().Exec(t.Context(), `UPDATE ops_run SET contract = convert_to(replace(convert_from(contract, 'UTF8'), 'Format', 'Forget'), 'UTF8')`)
	require.NoError(t, err)
	require.Contains(t, b.succeed("runs", "show", run.ID), "is not what its digest says")
	var detail runDetail
	require.NoError(t, json.Unmarshal([]byte(b.succeed("runs", "show", run.ID, "--json")), &detail))
	require.Nil(t, detail.Pins)
}

// CASES 41
func TestSessionLogIsShownInOrderAndCannotActOnTheTerminal(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	run := b.emit("k", nil)
	lease := b.claim(run.ID)
	require.NoError(t, lease.AppendLog(t.Context(), []byte("first\tline\nC:\\path half of \xc3")))
	require.NoError(t, lease.AppendLog(t.Context(), []byte("\xa9 and \x1b[2Jerased\n")))
	require.Equal(t, "first\tline\nC:\\path half of é and \\u001b[2Jerased\n", b.succeed("runs", "logs", run.ID))
	pieces := strings.Split(strings.TrimSpace(b.succeed("runs", "logs", run.ID, "--json")), "\n")
	require.Len(t, pieces, 2)
	var piece logView
	require.NoError(t, json.Unmarshal([]byte(pieces[1]), &piece))
	require.Equal(t, 2, piece.Seq)
}

// B34: a cancelled run is over only when it has been settled, and says by whom and why until then.
func TestCancelledRunSaysWhoAndWhyAndIsNotOver(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	run := b.emit("k", nil)
	lease := b.claim(run.ID)
	code, _, errs := b.command("runs", "cancel", run.ID, "--reason", "wrong branch")
	require.Equal(t, evidence.ExitUsage, code, errs)
	require.Contains(t, b.succeed("runs", "cancel", run.ID, "--reason", "wrong branch", "--operator", "ada"), "is cancel_requested")
	require.Contains(t, b.succeed("runs", "show", run.ID), "by ada: wrong branch")
	require.ErrorIs(t, lease.Stage(t.Context(), evidence.StageSession), queue.ErrLeaseLost)
	code, out, errs := b.command("runs", "wait", run.ID, "--timeout", "300ms")
	require.Equal(t, evidence.ExitUnknown, code, errs)
	require.Contains(t, out, "the run is cancel_requested")
	require.Contains(t, errs, "the time is up")
}
