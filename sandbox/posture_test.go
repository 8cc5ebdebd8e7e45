package sandbox

import (
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/system"
	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/sandbox/internal/wire"
)

func goodSpec() Spec {
	return Spec{
		Revision: "test@1", Image: "sha256:" + strings.Repeat("a", 64), Runtime: RuntimeRunc,
		MemoryBytes: 128 << 20, CPUMillis: 500, Pids: 64, FileBytes: 1 << 20, OpenFiles: 256,
		WorkspaceBytes: 1 << 20, WorkspaceInodes: 100, HomeBytes: 1 << 20, TmpBytes: 1 << 20, TTLSeconds: 60, OutputBytes: 1000,
	}
}

func goodFacts() wire.Facts {
	none := func() map[string]string {
		return map[string]string{"CapEff": "0000000000000000", "CapPrm": "0000000000000000", "CapInh": "0000000000000000", "CapAmb": "0000000000000000", "Seccomp": "2"}
	}
	two := none()
	two["CapEff"], two["CapPrm"] = "00000000000000c0", "00000000000000c0"
	tmpfs := wire.Mount{Type: "tmpfs", Bytes: 1 << 20, Inodes: 100}
	return wire.Facts{
		UID: 1000, GID: 1000, Status: none(), NoNewPrivs: true, InitStatus: two, Kernel: "6", Interfaces: []string{"lo"},
		Mounts: map[string]wire.Mount{
			"/": {Type: "overlay", ReadOnly: true}, "/.harness": {Type: "ext4", ReadOnly: true}, "/proc": {}, "/sys/fs/cgroup": {},
			"/workspace": tmpfs, "/home/agent": tmpfs, "/tmp": tmpfs, "/run/harness": tmpfs,
		},
		Writable: []string{"/home/agent", "/run/harness", "/tmp", "/workspace"}, FileBytes: 1 << 20, OpenFiles: 256, OOMScore: "1000",
		CgroupMemory: "134217728", CgroupPids: "64", CgroupCPU: "50000 100000",
	}
}

func goodInspect() container.InspectResponse {
	pids := int64(64)
	return container.InspectResponse{
		ContainerJSONBase: &container.ContainerJSONBase{HostConfig: &container.HostConfig{
			NetworkMode: "none", Runtime: "runc", ReadonlyRootfs: true, CapDrop: []string{"ALL"}, CapAdd: []string{"CAP_SETUID", "SETGID"},
			SecurityOpt: []string{"no-new-privileges"}, LogConfig: container.LogConfig{Type: "none"}, IpcMode: "none",
			Resources: container.Resources{Memory: 128 << 20, MemorySwap: 128 << 20, NanoCPUs: 500_000_000, PidsLimit: &pids},
		}},
		Mounts: []container.MountPoint{{Type: "volume", Destination: "/.harness"}},
	}
}

// A22, A23, A24, CASES 17, 24
func TestEveryDifferenceBetweenDeclaredAndObservedRefuses(t *testing.T) {
	t.Parallel()
	_, err := judge(goodSpec(), nil, "6", goodInspect(), goodFacts())
	require.NoError(t, err)
	for name, change := range map[string]func(*wire.Facts, *container.HostConfig){
		"user":                 func(f *wire.Facts, _ *container.HostConfig) { f.UID = 0 },
		"groups":               func(f *wire.Facts, _ *container.HostConfig) { f.Groups = []int{0} },
		"capabilities":         func(f *wire.Facts, _ *container.HostConfig) { f.Status["CapEff"] = "0000000000000001" },
		"capabilities missing": func(f *wire.Facts, _ *container.HostConfig) { delete(f.Status, "CapPrm") },
		"capabilities ambient": func(f *wire.Facts, _ *container.HostConfig) { f.Status["CapAmb"] = "1" },
		"init":                 func(f *wire.Facts, _ *container.HostConfig) { f.Breaches = []string{"signal"} },
		"init capabilities":    func(f *wire.Facts, _ *container.HostConfig) { f.InitStatus["CapEff"] = "00000000000000e0" },
		"init_env":             func(f *wire.Facts, _ *container.HostConfig) { f.InitEnv = []string{"TOKEN"} },
		"no_new_privs":         func(f *wire.Facts, _ *container.HostConfig) { f.NoNewPrivs = false },
		"network":              func(f *wire.Facts, _ *container.HostConfig) { f.Interfaces = []string{"eth0", "lo"} },
		"engine_sockets":       func(f *wire.Facts, _ *container.HostConfig) { f.Sockets = []string{"/run/docker.sock"} },
		"root":                 func(f *wire.Facts, _ *container.HostConfig) { f.Mounts["/"] = wire.Mount{} },
		"mounts":               func(f *wire.Facts, _ *container.HostConfig) { f.Mounts["/data"] = wire.Mount{} },
		"mounts writable init": func(f *wire.Facts, _ *container.HostConfig) { f.Mounts["/.harness"] = wire.Mount{} },
		"mounts type": func(f *wire.Facts, _ *container.HostConfig) {
			f.Mounts["/tmp"] = wire.Mount{Type: "ext4", Bytes: 1 << 20}
		},
		"writable": func(f *wire.Facts, _ *container.HostConfig) { f.Writable = append(f.Writable, "/etc") },
		"workspace_bytes": func(f *wire.Facts, _ *container.HostConfig) {
			f.Mounts["/workspace"] = wire.Mount{Type: "tmpfs", Bytes: 1 << 30, Inodes: 100}
		},
		"workspace_inodes": func(f *wire.Facts, _ *container.HostConfig) {
			f.Mounts["/workspace"] = wire.Mount{Type: "tmpfs", Bytes: 1 << 20}
		},
		"file_bytes":               func(f *wire.Facts, _ *container.HostConfig) { f.FileBytes = 1 << 62 },
		"open_files":               func(f *wire.Facts, _ *container.HostConfig) { f.OpenFiles = 1 << 20 },
		"core_bytes":               func(f *wire.Facts, _ *container.HostConfig) { f.CoreBytes = 1 },
		"oom_score":                func(f *wire.Facts, _ *container.HostConfig) { f.OOMScore = "0" },
		"memory_bytes":             func(f *wire.Facts, _ *container.HostConfig) { f.CgroupMemory = "" },
		"pids":                     func(f *wire.Facts, _ *container.HostConfig) { f.CgroupPids = "max" },
		"cpu_millis":               func(f *wire.Facts, _ *container.HostConfig) { f.CgroupCPU = "-1 100000" },
		"cgroup":                   func(f *wire.Facts, _ *container.HostConfig) { f.CgroupWritten = true },
		"system_calls":             func(f *wire.Facts, _ *container.HostConfig) { f.Status["Seccomp"] = "0" },
		"engine_runtime":           func(_ *wire.Facts, h *container.HostConfig) { h.Runtime = "other" },
		"engine_network":           func(_ *wire.Facts, h *container.HostConfig) { h.NetworkMode = "host" },
		"engine_root":              func(_ *wire.Facts, h *container.HostConfig) { h.ReadonlyRootfs = false },
		"engine_privileged":        func(_ *wire.Facts, h *container.HostConfig) { h.Privileged = true },
		"engine_privileged pid":    func(_ *wire.Facts, h *container.HostConfig) { h.PidMode = "host" },
		"engine_capabilities":      func(_ *wire.Facts, h *container.HostConfig) { h.CapAdd = append(h.CapAdd, "SYS_ADMIN") },
		"engine_capabilities drop": func(_ *wire.Facts, h *container.HostConfig) { h.CapDrop = nil },
		"engine_security": func(_ *wire.Facts, h *container.HostConfig) {
			h.SecurityOpt = append(h.SecurityOpt, "seccomp=unconfined")
		},
		"engine_mounts": func(_ *wire.Facts, h *container.HostConfig) { h.Binds = []string{"/:/host"} },
		"engine_log":    func(_ *wire.Facts, h *container.HostConfig) { h.LogConfig.Type = "json-file" },
		"engine_ipc":    func(_ *wire.Facts, h *container.HostConfig) { h.IpcMode = "host" },
		"engine_limits": func(_ *wire.Facts, h *container.HostConfig) { h.MemorySwap = -1 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			facts, inspect := goodFacts(), goodInspect()
			change(&facts, inspect.HostConfig)
			_, err := judge(goodSpec(), nil, "6", inspect, facts)
			var f *evidence.Failure
			require.ErrorAs(t, err, &f)
			key, _, _ := strings.Cut(name, " ")
			require.Equal(t, key, f.Subject)
			want := evidence.CodeIsolationMismatch
			if key == "network" || key == "engine_sockets" {
				want = evidence.CodeReachabilityAmbiguous
			}
			require.Equal(t, want, f.Code)
		})
	}
}

// A22, CASES 17
func TestWhatTheRuntimeCannotEnforceIsSaidSo(t *testing.T) {
	t.Parallel()
	facts := goodFacts()
	facts.CgroupMemory, facts.CgroupPids = "", ""
	p, err := judge(goodSpec(), []string{LimitPids, LimitMemory}, "6", goodInspect(), facts)
	require.NoError(t, err)
	require.Equal(t, []string{"memory", "pids"}, p.notEnforced)
	require.Equal(t, notEnforced, p.observed["memory_bytes"])
	require.Equal(t, "500", p.observed["cpu_millis"])
}

// A8, CASES 24
func TestAMissingRuntimeIsRefusedByName(t *testing.T) {
	t.Parallel()
	v := &Venue{cfg: Config{Engine: "e"}, info: system.Info{Runtimes: map[string]system.RuntimeWithStatus{"runc": {}}}}
	spec := goodSpec()
	spec.Runtime = RuntimeRunsc
	_, err := v.check(t.Context(), v.info, spec) // answered from the engine's facts: there is no engine to ask
	var f *evidence.Failure
	require.ErrorAs(t, err, &f)
	require.Equal(t, evidence.CodeRuntimeMissing, f.Code)
	require.Equal(t, "runsc", f.Subject)
}

func TestASpecHasNoDefaults(t *testing.T) {
	t.Parallel()
	require.NoError(t, goodSpec().Validate())
	for name, change := range map[string]func(*Spec){
		"revision": func(s *Spec) { s.Revision = "test" }, "latest": func(s *Spec) { s.Image = "codemod:latest" }, "repo digest": func(s *Spec) { s.Image = "codemod@" + s.Image },
		"runtime": func(s *Spec) { s.Runtime = "" }, "memory": func(s *Spec) { s.MemoryBytes = 0 }, "cpu": func(s *Spec) { s.CPUMillis = -1 }, "pids": func(s *Spec) { s.Pids = 0 },
		"file": func(s *Spec) { s.FileBytes = 0 }, "open": func(s *Spec) { s.OpenFiles = 0 }, "workspace": func(s *Spec) { s.WorkspaceBytes = 0 }, "inodes": func(s *Spec) { s.WorkspaceInodes = 0 },
		"home": func(s *Spec) { s.HomeBytes = 0 }, "tmp": func(s *Spec) { s.TmpBytes = 0 }, "ttl": func(s *Spec) { s.TTLSeconds = 1 << 40 }, "output": func(s *Spec) { s.OutputBytes = 0 },
		"mounts": func(s *Spec) { s.TmpBytes = 128 << 20 }, "required": func(s *Spec) { s.Required = []string{"disk"} }, "required twice": func(s *Spec) { s.Required = []string{"pids", "pids"} },
	} {
		s := goodSpec()
		change(&s)
		require.Error(t, s.Validate(), name)
	}
}
