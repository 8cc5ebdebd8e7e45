package sandbox

import (
	"context"
	"fmt"
	"io"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types"

	"github.com/rein-aharness/harness/evidence"
)

// Usage is what the engine's disk holds, in bytes.
type Usage struct {
	Images  int64 // all layers, each counted once
	Volumes int64 // all volumes whose size the engine knows
}

// Usage asks the engine. It takes time on an engine with much on it.
func (v *Venue) Usage(ctx context.Context) (Usage, error) {
	du, err := v.docker.DiskUsage(ctx, types.DiskUsageOptions{})
	if err != nil {
		return Usage{}, fmt.Errorf("sandbox: disk usage of engine %s: %w", v.cfg.Engine, err)
	}
	u := Usage{Images: du.LayersSize}
	for _, vol := range du.Volumes {
		if vol.UsageData != nil && vol.UsageData.Size > 0 {
			u.Volumes += vol.UsageData.Size
		}
	}
	return u, nil
}

// Load gives an image archive (as `docker save` writes it) to the engine, and requires that the engine then knows an image by the
// id want. Without reading the archive it returns when it already does. An engine whose images have reached Config.ImageBytes
// takes no further one: disk_exceeded; the archive's size counts.
func (v *Venue) Load(ctx context.Context, archive io.Reader, archiveBytes int64, want string) error {
	if !imageForm.MatchString(want) {
		return evidence.Fail(evidence.StageSandbox, evidence.CodeImageMismatch, want, fmt.Errorf("not sha256:<64 hex digits>"))
	}
	_, err := v.docker.ImageInspect(ctx, want)
	if err == nil {
		_, err = v.imageEnv(ctx, want)
		return err
	}
	if !cerrdefs.IsNotFound(err) {
		return fmt.Errorf("sandbox: inspect image %s: %w", want, err)
	}
	used, err := v.Usage(ctx)
	if err != nil {
		return err
	}
	if archiveBytes < 0 || used.Images+archiveBytes > v.cfg.ImageBytes {
		return evidence.Fail(evidence.StageSandbox, evidence.CodeDiskExceeded, "images",
			fmt.Errorf("engine %s holds %d bytes of images and the archive has %d; the budget is %d", v.cfg.Engine, used.Images, archiveBytes, v.cfg.ImageBytes))
	}
	if err := v.load(ctx, io.LimitReader(archive, archiveBytes)); err != nil {
		return err
	}
	_, err = v.imageEnv(ctx, want)
	if evidence.CodeOf(err) == evidence.CodeImageMissing {
		return evidence.Fail(evidence.StageSandbox, evidence.CodeImageMismatch, want, fmt.Errorf("the archive holds another image"))
	}
	return err
}
