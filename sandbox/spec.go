package sandbox

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"
)

// Aggregate limits that a Spec may require to be enforced. Under a runtime that cannot, the profile is refused.
const (
	LimitMemory = "memory"
	LimitPids   = "pids"
	LimitCPU    = "cpu"
	LimitInodes = "inodes"
)

// Runtimes that a profile may name.
const (
	RuntimeRunc  = "runc"
	RuntimeRunsc = "runsc"
)

// Spec is a profile's sandbox section. Every number is a hard limit and required; none has a default, so that a profile says
// what it gets. (A22, A24)
type Spec struct {
	Revision        string   `json:"revision"`         // name@version
	Image           string   `json:"image"`            // sha256:<config digest>; nothing is pulled
	Runtime         string   `json:"runtime"`          // runc or runsc
	MemoryBytes     int64    `json:"memory_bytes"`     // of all processes together; swap is never added
	CPUMillis       int64    `json:"cpu_millis"`       // thousandths of one processor
	Pids            int64    `json:"pids"`             // processes and threads, the init's included
	FileBytes       int64    `json:"file_bytes"`       // size of one file
	OpenFiles       int64    `json:"open_files"`       // descriptors of one process
	WorkspaceBytes  int64    `json:"workspace_bytes"`  // of /workspace
	WorkspaceInodes int64    `json:"workspace_inodes"` // files and folders in /workspace
	HomeBytes       int64    `json:"home_bytes"`       // of /home/agent
	TmpBytes        int64    `json:"tmp_bytes"`        // of /tmp
	TTLSeconds      int64    `json:"ttl_seconds"`      // the container ends itself after this
	OutputBytes     int64    `json:"output_bytes"`     // of all commands of the session together
	Required        []string `json:"required"`         // aggregate limits that must be enforced
}

var (
	revisionForm = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}@[0-9A-Za-z][0-9A-Za-z.+-]{0,63}$`)
	imageForm    = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
)

// Validate reports everything that is wrong with s.
func (s Spec) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("sandbox: "+format, args...)) }
	if !revisionForm.MatchString(s.Revision) {
		bad("revision %q is not name@version", s.Revision)
	}
	if !imageForm.MatchString(s.Image) {
		bad("image %q is not sha256:<64 hex digits>", s.Image)
	}
	if s.Runtime != RuntimeRunc && s.Runtime != RuntimeRunsc {
		bad("runtime %q is neither runc nor runsc", s.Runtime)
	}
	for _, n := range []struct {
		name        string
		v, min, max int64
	}{
		{"memory_bytes", s.MemoryBytes, 64 << 20, 1 << 40},
		{"cpu_millis", s.CPUMillis, 50, 1 << 20},
		{"pids", s.Pids, 32, 1 << 16}, // the init and a helper are Go programs with a few threads each
		{"file_bytes", s.FileBytes, 1 << 20, 1 << 40},
		{"open_files", s.OpenFiles, 64, 1 << 20},
		{"workspace_bytes", s.WorkspaceBytes, 1 << 20, 1 << 40},
		{"workspace_inodes", s.WorkspaceInodes, 64, 1 << 30},
		{"home_bytes", s.HomeBytes, 1 << 16, 1 << 40},
		{"tmp_bytes", s.TmpBytes, 1 << 16, 1 << 40},
		{"ttl_seconds", s.TTLSeconds, 1, 7 * 24 * 3600},
		{"output_bytes", s.OutputBytes, 1, 1 << 40},
	} {
		if n.v < n.min || n.v > n.max {
			bad("%s is %d, must be %d to %d", n.name, n.v, n.min, n.max)
		}
	}
	// The writable mounts are memory too. Full ones must leave room for the init and its helpers: nothing can be killed to free them.
	if mounts := s.WorkspaceBytes + s.HomeBytes + s.TmpBytes + runDirBytes; mounts > s.MemoryBytes-initReserve {
		bad("workspace, home and tmp need %d bytes of memory with %d left beside them, and memory_bytes is %d", mounts, int64(initReserve), s.MemoryBytes)
	}
	for i, r := range s.Required {
		if !slices.Contains([]string{LimitMemory, LimitPids, LimitCPU, LimitInodes}, r) {
			bad("required limit %q is unknown", r)
		}
		if slices.Contains(s.Required[:i], r) {
			bad("required limit %q comes twice", r)
		}
	}
	return errors.Join(errs...)
}

func (s Spec) ttl() time.Duration { return time.Duration(s.TTLSeconds) * time.Second }
