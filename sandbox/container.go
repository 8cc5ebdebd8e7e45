package sandbox

import (
	"fmt"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/strslice"
	"github.com/docker/go-units"

	"github.com/rein-aharness/harness/sandbox/internal/guest"
)

// The session's user. The image needs no entry for it.
const (
	sessionUID = 1000
	sessionGID = 1000
)

// Sizes that no profile chooses.
const (
	runDirBytes   = 8 << 20
	initReserve   = 48 << 20 // of memory, for the init and one helper
	runDirInodes  = 256
	smallInodes   = 1 << 16 // of home and /tmp
	sessionPrefix = "harness-"
)

// tmpfs lists the writable mounts: all of them sized, in memory, and gone with the container.
func (s Spec) tmpfs() map[string]string {
	opts := func(bytes, inodes int64, more string) string {
		return fmt.Sprintf("rw,nosuid,nodev,%s,size=%d,nr_inodes=%d,uid=%d,gid=%d,mode=0700", more, bytes, inodes, sessionUID, sessionGID)
	}
	return map[string]string{
		guest.Workspace: opts(s.WorkspaceBytes, s.WorkspaceInodes, "exec"),
		guest.Home:      opts(s.HomeBytes, smallInodes, "exec"),
		guest.Tmp:       opts(s.TmpBytes, smallInodes, "exec"),
		guest.RunDir:    opts(runDirBytes, runDirInodes, "noexec"),
	}
}

// containerOf is the whole of what the engine is asked for. imageEnv is only taken out again: PID 1's environment stays empty,
// because under gVisor the session can read it.
func (v *Venue) containerOf(spec Spec, id Identity, imageEnv []string) (*container.Config, *container.HostConfig) {
	opts := guest.Options{UID: sessionUID, GID: sessionGID, TTL: spec.ttl(), Keepalive: v.cfg.Keepalive}
	unset := []string{"PATH", "HOSTNAME"} // a name without "=" removes the variable
	for _, kv := range imageEnv {
		name, _, _ := strings.Cut(kv, "=")
		unset = append(unset, name)
	}
	cfg := &container.Config{
		Image:           spec.Image,
		User:            "0:0",
		WorkingDir:      "/",
		Env:             unset,
		Entrypoint:      strslice.StrSlice(append([]string{guest.InitPath, guest.Command}, opts.Args()...)),
		Cmd:             strslice.StrSlice{},
		AttachStdin:     true,
		AttachStdout:    true,
		AttachStderr:    true,
		OpenStdin:       true,
		StdinOnce:       true, // the attachment's end closes the init's standard input: the wire's death
		NetworkDisabled: true,
		Hostname:        "sandbox",
		Labels:          id.labels(v.cfg.Engine),
		Healthcheck:     &container.HealthConfig{Test: []string{"NONE"}},
	}
	limit := func(name string, n int64) *container.Ulimit { return &units.Ulimit{Name: name, Soft: n, Hard: n} }
	pids := spec.Pids
	host := &container.HostConfig{
		NetworkMode:    "none",
		Runtime:        spec.Runtime,
		AutoRemove:     true,
		ReadonlyRootfs: true,
		Privileged:     false,
		CapDrop:        strslice.StrSlice{"ALL"},
		CapAdd:         strslice.StrSlice{"SETUID", "SETGID"},
		SecurityOpt:    []string{"no-new-privileges"},
		IpcMode:        container.IPCModeNone, // no shared memory mount
		LogConfig:      container.LogConfig{Type: "none"},
		RestartPolicy:  container.RestartPolicy{Name: container.RestartPolicyDisabled},
		Tmpfs:          spec.tmpfs(),
		Mounts: []mount.Mount{{
			Type: mount.TypeVolume, Source: v.binary.volume(), Target: guest.InitDir, ReadOnly: true,
			VolumeOptions: &mount.VolumeOptions{NoCopy: true},
		}},
		Resources: container.Resources{
			Memory:     spec.MemoryBytes,
			MemorySwap: spec.MemoryBytes,
			NanoCPUs:   spec.CPUMillis * 1_000_000,
			PidsLimit:  &pids,
			Ulimits: []*container.Ulimit{
				limit("fsize", spec.FileBytes), limit("nofile", spec.OpenFiles), limit("core", 0), limit("msgqueue", 0), limit("memlock", 64<<10),
			},
		},
	}
	return cfg, host
}
