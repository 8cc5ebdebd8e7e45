package stack

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// The repository of the main job: a real module, one commit per published version.
const (
	demoModule = "github.com/spf13/cobra"
	demoName   = "cobra.git"
)

// demoVersions are published versions in a row; the dates are those of their publication, in seconds.
var demoVersions = []struct {
	version string
	date    int64
}{
	{"v1.5.0", 1655848800},
	{"v1.6.0", 1665532800},
	{"v1.6.1", 1666656000},
	{"v1.7.0", 1680566400},
	{"v1.8.0", 1698969600},
	{"v1.8.1", 1717286400},
}

// demoManifest is what the repository lets the harness do, in its own last commit.
const demoManifest = `# What an unattended run of the harness may change here.
version: 1
paths:
  - "**/*.go"
target_refs:
  - refs/heads/**
symlinks: false
protected: []
`

// buildDemo makes the bare repository of the main job in the cache, or finds it there. It is the same, commit for
// commit, on every machine.
func buildDemo(ctx context.Context, say func(format string, arguments ...any)) (dir string, err error) {
	cache, err := CacheFolder()
	if err != nil {
		return "", err
	}
	key := sha256.Sum256(fmt.Appendf(nil, "%s %v %s", demoModule, demoVersions, demoManifest))
	dir = filepath.Join(cache, "demo-"+hex.EncodeToString(key[:8])+".git")
	if exists(dir) {
		return dir, nil
	}
	say("fetching %d versions of %s", len(demoVersions), demoModule)
	var stream bytes.Buffer
	for _, v := range demoVersions {
		source, err := downloadModule(ctx, demoModule+"@"+v.version)
		if err != nil {
			return "", err
		}
		commitHeader(&stream, v.date, "Release "+v.version)
		// Each version is whole: what the one before had and this one has not is gone.
		stream.WriteString("deleteall\n")
		if err := addTree(&stream, source); err != nil {
			return "", err
		}
	}
	last := demoVersions[len(demoVersions)-1]
	commitHeader(&stream, last.date+3600, "Let the harness change Go files")
	fmt.Fprintf(&stream, "M 100644 inline .harness.yaml\ndata %d\n%s\n", len(demoManifest), demoManifest)

	temporary := fmt.Sprintf("%s.%d", dir, os.Getpid())
	if err := CreateRepository(ctx, temporary); err != nil {
		return "", err
	}
	if _, err := Git(ctx, temporary, stream.Bytes(), "fast-import", "--quiet"); err != nil {
		return "", errors.Join(err, os.RemoveAll(temporary))
	}
	return dir, os.Rename(temporary, dir)
}

func commitHeader(stream *bytes.Buffer, date int64, message string) {
	fmt.Fprintf(stream, "commit refs/heads/main\ncommitter Cobra Authors <authors@example.com> %d +0000\ndata %d\n%s\n", date, len(message), message)
}

// addTree adds all files below a folder, in the order of their names.
func addTree(stream *bytes.Buffer, folder string) error {
	return filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		fmt.Fprintf(stream, "M 100644 inline %s\ndata %d\n%s\n", quotePath(name), len(content), content)
		return nil
	})
}

// downloadModule gets a module version by the go command and returns the folder it is in.
func downloadModule(ctx context.Context, module string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", module)
	cmd.Dir = os.TempDir() // outside of a module, so that none is changed
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	output, err := cmd.Output()
	var downloaded struct{ Dir, Error string }
	if decodeErr := json.Unmarshal(output, &downloaded); decodeErr != nil || downloaded.Error != "" || downloaded.Dir == "" {
		return "", fmt.Errorf("download %s: %w", module, errors.Join(err, decodeErr, errors.New(downloaded.Error)))
	}
	return downloaded.Dir, err
}

// publishDemo puts a fresh copy of the repository on the git servers.
func (s *State) publishDemo(ctx context.Context, cached string) error {
	dir := filepath.Join(s.Git.Root, demoName)
	if err := CreateRepository(ctx, dir); err != nil {
		return err
	}
	if _, err := Git(ctx, dir, nil, "fetch", "--quiet", cached, "refs/heads/main:refs/heads/main"); err != nil {
		return err
	}
	head, err := Git(ctx, dir, nil, "rev-parse", "refs/heads/main")
	if err != nil {
		return err
	}
	s.Demo = Demo{Name: demoName, URL: s.Git.HTTP + "/" + demoName, Baseline: strings.TrimSpace(string(head))}
	return nil
}
