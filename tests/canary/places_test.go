package canary_test

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/tests/stack"
)

// tables looks at every row of every table of a database: as text, where bytes are hex, and in binary, where text and bytes are as
// they are.
func (s *search) tables(t *testing.T, url string) {
	t.Helper()
	db, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close(context.WithoutCancel(t.Context()))) }()
	rows, err := db.Query(t.Context(), `SELECT table_schema, table_name FROM information_schema.tables
		WHERE table_type = 'BASE TABLE' AND table_schema NOT IN ('pg_catalog', 'information_schema')`)
	require.NoError(t, err)
	names, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (name pgx.Identifier, err error) {
		name = pgx.Identifier{"", ""}
		return name, row.Scan(&name[0], &name[1])
	})
	require.NoError(t, err)
	for _, name := range names {
		for _, format := range []string{"text", "binary"} {
			var data bytes.Buffer
			_, err := db.PgConn().CopyTo(t.Context(), &data, "COPY "+name.Sanitize()+" TO STDOUT (FORMAT "+format+")")
			require.NoError(t, err, "%v", name)
			s.look("table "+name[1], data.Bytes())
		}
	}
}

// files looks at names and contents of everything below a folder but the named files, and at every object of the git repositories
// there.
func (s *search) files(t *testing.T, place, folder string, but ...string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		name, relErr := filepath.Rel(folder, path)
		if err != nil || relErr != nil {
			return err
		}
		s.look(place, []byte(name))
		switch {
		case entry.IsDir() && entry.Name() == "objects":
			s.objects(t, place, path)
		case entry.Type().IsRegular() && !slices.Contains(but, name):
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			s.look(place, data)
		}
		return nil
	}))
}

// objects looks at every object that a git repository has in a folder, whether anything refers to it or not.
func (s *search) objects(t *testing.T, place, folder string) {
	t.Helper()
	view := t.TempDir()
	require.NoError(t, stack.CreateRepository(t.Context(), view))
	require.NoError(t, os.WriteFile(filepath.Join(view, "objects", "info", "alternates"), []byte(folder+"\n"), 0o600))
	data, err := stack.Git(t.Context(), view, nil, "cat-file", "--batch-all-objects", "--batch")
	require.NoError(t, err)
	s.look(place, data)
	s.looked["objects of "+place] += len(data)
}

// inspect looks at what the engine shows of a run's containers, their volumes and what became of both, and gives the ids of the
// containers' first processes on this machine.
func (s *search) inspect(t *testing.T, st *stack.Stack, run string) (first []int) {
	t.Helper()
	engine := dial(t, st)
	labelled := filters.NewArgs(filters.Arg("label", "harness.run="+run))
	list, err := engine.ContainerList(t.Context(), container.ListOptions{All: true, Size: true, Filters: labelled})
	require.NoError(t, err)
	volumes, err := engine.VolumeList(t.Context(), volume.ListOptions{Filters: labelled})
	require.NoError(t, err)
	var names []string
	for _, v := range volumes.Volumes {
		names = append(names, v.Name)
	}
	for _, listed := range list {
		shown, raw, err := engine.ContainerInspectWithRaw(t.Context(), listed.ID, true)
		require.NoError(t, err)
		s.look("container", raw)
		first = append(first, shown.State.Pid)
		for _, m := range shown.Mounts {
			if m.Type == mount.TypeVolume {
				names = append(names, m.Name)
			}
		}
	}
	for _, name := range names {
		_, raw, err := engine.VolumeInspectWithRaw(t.Context(), name)
		require.NoError(t, err)
		s.look("volume", raw)
	}
	return first
}

func dial(t *testing.T, st *stack.Stack) *client.Client {
	t.Helper()
	engine, err := client.NewClientWithOpts(client.WithHost(st.DockerHost()), client.WithAPIVersionNegotiation())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, engine.Close()) })
	return engine
}

// logs are the logs of the stack's parts from now on.
type logs map[string]int64

func logsFromNow(t *testing.T, st *stack.Stack) logs {
	t.Helper()
	l := logs{}
	paths, err := filepath.Glob(filepath.Join(st.Dir, "log", "*.log"))
	require.NoError(t, err)
	for _, path := range paths {
		info, err := os.Stat(path)
		require.NoError(t, err)
		l[path] = info.Size()
	}
	return l
}

func (s *search) logs(t *testing.T, l logs) {
	t.Helper()
	for path, from := range l {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		s.look("log of "+filepath.Base(path), data[min(from, int64(len(data))):])
	}
}

// A27, A28: the search finds a value in each kind of place that it looks at.
func TestTheSearchFindsAValueInEveryPlace(t *testing.T) {
	t.Parallel()
	st := stack.Load(t)
	for _, c := range planted() {
		found := func(place string, look func(s *search)) {
			t.Helper()
			s := searchFor(c)
			look(s)
			require.NotEmpty(t, s.found, "%s in %s", c.name, place)
		}
		url := st.Database(t)
		db, err := pgx.Connect(t.Context(), url)
		require.NoError(t, err)
		for _, column := range []string{"text", "bytea", "jsonb"} {
			_, err := db.Exec(t.Context(), `CREATE TABLE planted (n int, it `+column+`)`)
			require.NoError(t, err)
			convert := map[string]string{"text": "$1::text", "bytea": "convert_to($1::text, 'UTF8')", "jsonb": "to_jsonb($1::text)"}[column]
			_, err = db.Exec(t.Context(), `INSERT INTO planted VALUES (1, `+convert+`)`, c.value)
			require.NoError(t, err)
			found("a table: "+column, func(s *search) { s.tables(t, url) })
			_, err = db.Exec(t.Context(), `DROP TABLE planted`)
			require.NoError(t, err)
		}
		require.NoError(t, db.Close(t.Context()))

		repo := st.Repository(t, "canary", map[string]string{"a.txt": "one\n" + c.value})
		found("an object", func(s *search) { s.files(t, "remote", repo.Dir) })
		folder := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(folder, "a"), []byte("one\n"+c.value), 0o600))
		found("a file", func(s *search) { s.files(t, "folder", folder) })

		cmd := exec.Command("sleep", "60")
		cmd.Env = []string{"A=" + c.value}
		require.NoError(t, cmd.Start())
		found("an environment", func(s *search) { s.processes(t, everybody) })
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait() // it was killed
		cmd = exec.Command("/bin/sh", "-c", "sleep 60; exit", c.value)
		require.NoError(t, cmd.Start())
		found("an argument", func(s *search) { s.processes(t, everybody) })
		for _, child := range append(descendants(snapshot(t), cmd.Process.Pid), cmd.Process.Pid) {
			process, err := os.FindProcess(child)
			require.NoError(t, err)
			require.NoError(t, process.Kill())
		}
		_ = cmd.Wait() // likewise

		engine := dial(t, st)
		label := map[string]string{"harness.run": "planted-" + c.name}
		v, err := engine.VolumeCreate(t.Context(), volume.CreateOptions{Labels: map[string]string{"harness.run": label["harness.run"], "it": c.value}})
		require.NoError(t, err)
		found("a volume", func(s *search) { s.inspect(t, st, label["harness.run"]) })
		require.NoError(t, engine.VolumeRemove(t.Context(), v.Name, true))
		made, err := engine.ContainerCreate(t.Context(), &container.Config{
			Image: st.Image(t, "hostile"), Cmd: []string{"/x"}, Env: []string{"A=" + c.value}, Labels: label,
		}, nil, nil, nil, "")
		require.NoError(t, err)
		found("a container", func(s *search) { s.inspect(t, st, label["harness.run"]) })
		require.NoError(t, engine.ContainerRemove(t.Context(), made.ID, container.RemoveOptions{Force: true}))
	}
}
