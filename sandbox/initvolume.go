package sandbox

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/volume"

	"github.com/rein-aharness/harness/sandbox/internal/guest"
)

// initBinary is the executable that becomes PID 1 of every sandbox.
type initBinary struct {
	path   string
	digest string // sha256:<hex>
	size   int64
}

func (b initBinary) hex() string { return b.digest[len("sha256:"):] }

func (b initBinary) volume() string { return "harness-init-" + b.hex()[:32] }

// readInitBinary hashes the executable, and refuses one that an empty root filesystem could not run.
func readInitBinary(name string) (initBinary, error) {
	f, err := os.Open(name)
	if err != nil {
		return initBinary{}, fmt.Errorf("sandbox: init binary: %w", err)
	}
	defer func() { _ = f.Close() }() // read only
	exe, err := elf.NewFile(f)
	if err != nil {
		return initBinary{}, fmt.Errorf("sandbox: init binary %s: %w", name, err)
	}
	for _, p := range exe.Progs {
		if p.Type == elf.PT_INTERP {
			return initBinary{}, fmt.Errorf("sandbox: init binary %s is not static: build it with CGO_ENABLED=0", name)
		}
	}
	h := sha256.New()
	n, err := io.Copy(h, f)
	if err != nil {
		return initBinary{}, fmt.Errorf("sandbox: init binary: %w", err)
	}
	return initBinary{path: name, digest: "sha256:" + hex.EncodeToString(h.Sum(nil)), size: n}, nil
}

// ensureInit prepares the init volume and verifies its content, once per process and volume: one that was removed and made again
// under the same name is another.
func (v *Venue) ensureInit(ctx context.Context) error {
	v.initOnce.Lock()
	defer v.initOnce.Unlock()
	if v.initMade != "" {
		vol, err := v.docker.VolumeInspect(ctx, v.binary.volume())
		if err != nil && !cerrdefs.IsNotFound(err) {
			return fmt.Errorf("sandbox: inspect the init volume: %w", err)
		}
		if err == nil && vol.CreatedAt == v.initMade {
			return nil
		}
	}
	image, err := v.ensureCarrier(ctx)
	if err != nil {
		return err
	}
	vol, err := v.docker.VolumeCreate(ctx, volume.CreateOptions{
		Name:   v.binary.volume(),
		Labels: map[string]string{labelInit: v.binary.digest, labelEngine: v.cfg.Engine},
	})
	if err != nil {
		return fmt.Errorf("sandbox: create the init volume: %w", err)
	}
	if err := v.withCarrier(ctx, image, v.fillInit); err != nil {
		return err
	}
	v.initMade = vol.CreatedAt
	return nil
}

// carrierPatience is how long one process may hold the carrier before another, or the janitor, takes it for dead: longer than the init
// takes to be written and read, and short enough that the runs of the others, which wait for it in their sandbox's stage, survive that.
const carrierPatience = 30 * time.Second

// withCarrier runs f with a created, never started container that has the init volume writable. Its name is the lock between the
// worker processes of one engine: two of them filling the volume at once could show a third one half a file.
func (v *Venue) withCarrier(ctx context.Context, image string, f func(ctx context.Context, id string) error) (err error) {
	name := v.binary.volume() + "-carrier"
	var seen string
	var since time.Time
	for {
		created, err := v.docker.ContainerCreate(ctx,
			&container.Config{
				Image: image, Cmd: []string{guest.InitPath}, NetworkDisabled: true,
				Labels: map[string]string{
					labelEngine: v.cfg.Engine, labelInit: v.binary.digest,
					labelExpires: strconv.FormatInt(time.Now().Add(carrierPatience).Unix(), 10),
				},
			},
			&container.HostConfig{
				NetworkMode: "none",
				LogConfig:   container.LogConfig{Type: "none"},
				Mounts:      []mount.Mount{{Type: mount.TypeVolume, Source: v.binary.volume(), Target: guest.InitDir, VolumeOptions: &mount.VolumeOptions{NoCopy: true}}},
			}, nil, nil, name)
		if err == nil {
			defer func() {
				clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
				defer cancel()
				rerr := v.docker.ContainerRemove(clean, created.ID, container.RemoveOptions{Force: true})
				if rerr != nil && !cerrdefs.IsNotFound(rerr) {
					err = errors.Join(err, fmt.Errorf("sandbox: remove the carrier: %w", rerr))
				}
			}()
			return f(ctx, created.ID)
		}
		if !cerrdefs.IsConflict(err) {
			return fmt.Errorf("sandbox: create the carrier: %w", err)
		}
		held, ierr := v.docker.ContainerInspect(ctx, name)
		switch {
		case cerrdefs.IsNotFound(ierr):
			continue
		case ierr != nil:
			return fmt.Errorf("sandbox: inspect the carrier: %w", ierr)
		case held.ID != seen:
			seen, since = held.ID, time.Now()
		case time.Since(since) > carrierPatience:
			if rerr := v.docker.ContainerRemove(ctx, seen, container.RemoveOptions{Force: true}); rerr != nil && !cerrdefs.IsNotFound(rerr) {
				return fmt.Errorf("sandbox: remove an abandoned carrier: %w", rerr)
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("sandbox: wait for the carrier: %w", context.Cause(ctx))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (v *Venue) fillInit(ctx context.Context, id string) error {
	if v.verifyInit(ctx, id) == nil {
		return nil
	}
	// Absent, or not what its name says: written anew, and verified again.
	pr, pw := io.Pipe()
	go func() { pw.CloseWithError(v.binary.archive(pw)) }()
	err := v.docker.CopyToContainer(ctx, id, guest.InitDir, pr, container.CopyToContainerOptions{})
	pr.CloseWithError(errors.New("upload ended"))
	if err != nil {
		return fmt.Errorf("sandbox: fill the init volume: %w", err)
	}
	return v.verifyInit(ctx, id)
}

// archive writes a tar of the binary alone, and fails when the file is no longer the one that was hashed.
func (b initBinary) archive(w io.Writer) error {
	f, err := os.Open(b.path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // read only
	tw := tar.NewWriter(w)
	if err := tw.WriteHeader(&tar.Header{Name: path.Base(guest.InitPath), Mode: 0o755, Size: b.size, Format: tar.FormatPAX}); err != nil {
		return err
	}
	if _, err := io.Copy(tw, f); err != nil {
		return err
	}
	return tw.Close()
}

// verifyInit reads the volume back: it holds the binary, with that digest, executable, and nothing else.
func (v *Venue) verifyInit(ctx context.Context, id string) (err error) {
	content, _, err := v.docker.CopyFromContainer(ctx, id, guest.InitDir+"/.")
	if err != nil {
		return fmt.Errorf("sandbox: read the init volume: %w", err)
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	tr, files := tar.NewReader(content), 0
	for {
		head, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("sandbox: read the init volume: %w", err)
		}
		name := path.Clean("/" + head.Name)
		if head.Typeflag == tar.TypeDir && name == "/" {
			continue
		}
		h := sha256.New()
		if _, err := io.Copy(h, io.LimitReader(tr, v.binary.size+1)); err != nil {
			return fmt.Errorf("sandbox: read the init volume: %w", err)
		}
		sum := "sha256:" + hex.EncodeToString(h.Sum(nil))
		if files++; head.Typeflag != tar.TypeReg || name != "/"+path.Base(guest.InitPath) || sum != v.binary.digest || head.Mode&0o111 != 0o111 {
			return fmt.Errorf("sandbox: the init volume %s holds %q with %s", v.binary.volume(), head.Name, sum)
		}
	}
	if files != 1 {
		return fmt.Errorf("sandbox: the init volume %s does not hold the init", v.binary.volume())
	}
	return nil
}
