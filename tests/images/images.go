package images

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// gofumpt is the codemod of the main job.
const gofumpt = "mvdan.cc/gofumpt@v0.12.0"

// Image is a built image.
type Image struct {
	Name    string `json:"name"`
	ID      string `json:"id"`      // "sha256:<config digest>", what the engine calls it after loading
	Archive string `json:"archive"` // path of the archive
}

// recipe says how an image comes about.
type recipe struct {
	name    string
	program string // its path inside the image
	// source says what the program is built from; it changes whenever the program may.
	source func(checkout string) (string, error)
	build  func(ctx context.Context, checkout, output string) error
}

var recipes = []recipe{
	{
		name:    "codemod",
		program: "usr/local/bin/gofumpt",
		source:  func(string) (string, error) { return gofumpt, nil },
		build: func(ctx context.Context, _, output string) error {
			return goBuild(ctx, "", output, "install", gofumpt)
		},
	},
	{
		name:    "hostile",
		program: "usr/local/bin/toolbox",
		source:  func(checkout string) (string, error) { return digestOf(toolbox(checkout)) },
		build: func(ctx context.Context, checkout, output string) error {
			return goBuild(ctx, toolbox(checkout), output, "build", ".")
		},
	},
}

func toolbox(checkout string) string { return filepath.Join(checkout, "tests", "images", "toolbox") }

// Build builds all images into the cache folder, or finds them there. Say gets a line for each that is built.
func Build(ctx context.Context, checkout, cache string, say func(format string, arguments ...any)) ([]Image, error) {
	var built []Image
	for _, r := range recipes {
		image, err := r.image(ctx, checkout, cache, say)
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", r.name, err)
		}
		built = append(built, image)
	}
	return built, nil
}

func (r recipe) image(ctx context.Context, checkout, cache string, say func(string, ...any)) (Image, error) {
	source, err := r.source(checkout)
	if err != nil {
		return Image{}, err
	}
	self, err := digestOf(filepath.Dir(toolbox(checkout))) // this package
	if err != nil {
		return Image{}, err
	}
	key := sha256.Sum256([]byte(r.name + "\n" + source + "\n" + self + "\n" + runtime.Version() + "\n" + runtime.GOARCH))
	base := filepath.Join(cache, "image-"+r.name+"-"+hex.EncodeToString(key[:8]))
	if data, err := os.ReadFile(base + ".json"); err == nil {
		var kept Image
		if err := json.Unmarshal(data, &kept); err != nil {
			return Image{}, err
		}
		if _, err := os.Stat(kept.Archive); err == nil {
			return kept, nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return Image{}, err
	}
	say("building %s", r.name)
	folder, err := os.MkdirTemp("", "image-*")
	if err != nil {
		return Image{}, err
	}
	defer os.RemoveAll(folder)
	program := filepath.Join(folder, filepath.Base(r.program))
	if err := r.build(ctx, checkout, program); err != nil {
		return Image{}, err
	}
	return r.archive(program, base)
}

// archive writes <base>.tar and, when that is whole, <base>.json.
func (r recipe) archive(program, base string) (Image, error) {
	image, err := r.assemble(program)
	if err != nil {
		return Image{}, err
	}
	id, err := image.ConfigName()
	if err != nil {
		return Image{}, err
	}
	tag, err := name.NewTag("harness-" + r.name + ":stack")
	if err != nil {
		return Image{}, err
	}
	built := Image{Name: r.name, ID: id.String(), Archive: base + ".tar"}
	temporary := fmt.Sprintf("%s.%d", base, os.Getpid())
	if err := tarball.WriteToFile(temporary, tag, image); err != nil {
		return Image{}, err
	}
	if err := os.Rename(temporary, built.Archive); err != nil {
		return Image{}, err
	}
	data, err := json.Marshal(built)
	if err != nil {
		return Image{}, err
	}
	if err := os.WriteFile(temporary, data, 0o644); err != nil {
		return Image{}, err
	}
	return built, os.Rename(temporary, base+".json")
}

// epoch is the time of everything in an image.
var epoch = time.Unix(0, 0).UTC()

func (r recipe) assemble(program string) (v1.Image, error) {
	content, err := r.layer(program)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil })
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.Architecture, config.OS, config.Created = runtime.GOARCH, "linux", v1.Time{Time: epoch}
	config.History = nil
	config.Config = v1.Config{
		User:       "1000:1000",
		WorkingDir: "/workspace",
		Env:        []string{"PATH=/usr/local/bin", "HOME=/home/agent"},
	}
	return mutate.ConfigFile(image, config)
}

// layer is the file tree of an image as a tar with fixed owners, modes, times and order.
func (r recipe) layer(program string) ([]byte, error) {
	executable, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, entry := range []struct {
		path    string
		mode    int64
		owner   int
		content []byte // nil for a folder
	}{
		{"etc", 0o755, 0, nil},
		{"etc/group", 0o644, 0, []byte("root:x:0:\nagent:x:1000:\n")},
		{"etc/passwd", 0o644, 0, []byte("root:x:0:0:root:/:/nonexistent\nagent:x:1000:1000:agent:/home/agent:/nonexistent\n")},
		{"home", 0o755, 0, nil},
		{"home/agent", 0o700, 1000, nil},
		{"run", 0o755, 0, nil},
		{"run/harness", 0o755, 0, nil},
		{"tmp", 0o1777, 0, nil},
		{"usr", 0o755, 0, nil},
		{"usr/local", 0o755, 0, nil},
		{"usr/local/bin", 0o755, 0, nil},
		{r.program, 0o755, 0, executable},
		{"workspace", 0o755, 1000, nil},
	} {
		header := &tar.Header{
			Typeflag: tar.TypeDir, Name: entry.path + "/", Mode: entry.mode,
			Uid: entry.owner, Gid: entry.owner, ModTime: epoch, Format: tar.FormatUSTAR,
		}
		if entry.content != nil {
			header.Typeflag, header.Name, header.Size = tar.TypeReg, entry.path, int64(len(entry.content))
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(entry.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// goBuild builds or installs a static program with flags that leave no trace of the machine in it.
func goBuild(ctx context.Context, dir, output, command, target string) error {
	arguments := []string{command, "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid="}
	environment := append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOFLAGS=", "GOWORK=off")
	if command == "build" {
		arguments = append(arguments, "-o", output)
	} else {
		// The only way to build a module that is not the one we are in; the program gets the package's name.
		dir = filepath.Dir(output)
		environment = append(environment, "GOBIN="+dir)
	}
	cmd := exec.CommandContext(ctx, "go", append(arguments, target)...)
	cmd.Dir, cmd.Env = dir, environment
	if transcript, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s %s: %w\n%s", command, target, err, transcript)
	}
	return nil
}

// digestOf is a digest over the Go files in a folder, tests left out.
func digestOf(folder string) (string, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return "", err
	}
	if len(files) == 0 {
		return "", fmt.Errorf("no Go files in %s", folder)
	}
	digest := sha256.New()
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(digest, "%s %d\n%s", filepath.Base(file), len(data), data)
	}
	return hex.EncodeToString(digest.Sum(nil)), nil
}
