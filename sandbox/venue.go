package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/client"

	"github.com/rein-aharness/harness/evidence"
)

// Venue is one engine, as one worker process uses it. It is safe for concurrent use.
type Venue struct {
	cfg    Config
	docker *client.Client
	info   system.Info // as of Open
	binary initBinary

	initOnce sync.Mutex
	initMade string // when the engine made the init volume whose content was verified; empty before
}

// Open connects to the engine, negotiates the API version and reads the engine's facts. The init volume is prepared and its content
// verified before the first sandbox, once per process.
func Open(ctx context.Context, cfg Config) (*Venue, error) {
	cfg, err := cfg.WithDefaults()
	if err != nil {
		return nil, err
	}
	opts := []client.Opt{client.FromEnv, client.WithAPIVersionNegotiation()}
	if cfg.Host != "" {
		opts = append(opts, client.WithHost(cfg.Host))
	}
	docker, err := client.NewClientWithOpts(opts...)
	if err != nil {
		return nil, fmt.Errorf("sandbox: engine %s: %w", cfg.Engine, err)
	}
	v := &Venue{cfg: cfg, docker: docker}
	if err := v.learn(ctx); err != nil {
		return nil, errors.Join(err, docker.Close())
	}
	return v, nil
}

func (v *Venue) learn(ctx context.Context) (err error) {
	if v.binary, err = readInitBinary(v.cfg.Binary); err != nil {
		return err
	}
	if _, err := v.docker.Ping(ctx); err != nil {
		return fmt.Errorf("sandbox: engine %s does not answer: %w", v.cfg.Engine, err)
	}
	if v.info, err = v.docker.Info(ctx); err != nil {
		return fmt.Errorf("sandbox: engine %s: %w", v.cfg.Engine, err)
	}
	if v.info.OSType != "linux" {
		return fmt.Errorf("sandbox: engine %s runs %s containers, linux needed", v.cfg.Engine, v.info.OSType)
	}
	return nil
}

// Close lets the connection to the engine go. Sandboxes that are still there end with their wires.
func (v *Venue) Close() error { return v.docker.Close() }

// Engine returns our name for the engine.
func (v *Venue) Engine() string { return v.cfg.Engine }

// InitDigest returns the sha256 of the binary that is PID 1 of every sandbox.
func (v *Venue) InitDigest() string { return v.binary.digest }

// Check tells whether the engine could run spec: the image is there under that id, the runtime by that name, and every required
// limit can be enforced. It creates nothing. (A4, A8)
func (v *Venue) Check(ctx context.Context, spec Spec) error {
	now, err := v.docker.Info(ctx)
	if err != nil {
		return evidence.Fail(evidence.StageSandbox, evidence.CodeSandboxCreateFailed, v.cfg.Engine, fmt.Errorf("engine facts: %w", err))
	}
	_, err = v.check(ctx, now, spec)
	return err
}

// check is Check, and returns the environment that the image declares.
func (v *Venue) check(ctx context.Context, info system.Info, spec Spec) ([]string, error) {
	if err := spec.Validate(); err != nil {
		return nil, evidence.Fail(evidence.StageSandbox, evidence.CodeProfileIncompatible, spec.Revision, err)
	}
	if _, ok := info.Runtimes[spec.Runtime]; !ok {
		return nil, evidence.Fail(evidence.StageSandbox, evidence.CodeRuntimeMissing, spec.Runtime,
			fmt.Errorf("engine %s has no runtime of that name", v.cfg.Engine))
	}
	lacking := unenforced(info, spec.Runtime)
	for _, limit := range spec.Required {
		if slices.Contains(lacking, limit) {
			return nil, evidence.Fail(evidence.StageSandbox, evidence.CodeLimitNotEnforced, limit,
				fmt.Errorf("engine %s does not enforce it under %s", v.cfg.Engine, spec.Runtime))
		}
	}
	return v.imageEnv(ctx, spec.Image)
}

// imageEnv checks that the image is there under exactly that id, and returns the environment it declares.
func (v *Venue) imageEnv(ctx context.Context, id string) ([]string, error) {
	image, err := v.docker.ImageInspect(ctx, id)
	if cerrdefs.IsNotFound(err) {
		return nil, evidence.Fail(evidence.StageSandbox, evidence.CodeImageMissing, id,
			fmt.Errorf("engine %s: load its archive first", v.cfg.Engine))
	}
	if err != nil {
		return nil, evidence.Fail(evidence.StageSandbox, evidence.CodeSandboxCreateFailed, id, fmt.Errorf("inspect the image: %w", err))
	}
	if image.ID != id {
		return nil, evidence.Fail(evidence.StageSandbox, evidence.CodeImageMismatch, id,
			fmt.Errorf("engine %s reports the id %s, which is not the config digest", v.cfg.Engine, image.ID))
	}
	if image.Config == nil {
		return nil, nil
	}
	if len(image.Config.Volumes) != 0 {
		return nil, evidence.Fail(evidence.StageSandbox, evidence.CodeProfileIncompatible, id,
			errors.New("the image declares volumes, which would be unsized writable mounts"))
	}
	return image.Config.Env, nil
}

// unenforced lists the aggregate limits that do not hold under runtime on this engine. (A22)
func unenforced(info system.Info, runtime string) []string {
	var lacking []string
	rt := info.Runtimes[runtime]
	ignored := slices.ContainsFunc(rt.Args, func(a string) bool {
		return strings.TrimLeft(a, "-") == "ignore-cgroups" || strings.TrimLeft(a, "-") == "ignore-cgroups=true"
	})
	if !info.MemoryLimit || ignored {
		lacking = append(lacking, LimitMemory)
	}
	if !info.PidsLimit || runtime != RuntimeRunc {
		lacking = append(lacking, LimitPids) // under gVisor the engine's limit counts the host's threads, not the session's
	}
	if !info.CPUCfsQuota || ignored {
		lacking = append(lacking, LimitCPU)
	}
	if runtime != RuntimeRunc {
		lacking = append(lacking, LimitInodes, limitInitScheduling) // gVisor's tmpfs has a size, but counts no inodes
	}
	return lacking
}
