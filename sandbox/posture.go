package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/docker/api/types/container"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/sandbox/internal/guest"
	"github.com/rein-aharness/harness/sandbox/internal/wire"
)

// A posture is a sandbox's isolation as plain words: what the profile and this package declare, and what the engine's inspect and
// the probe inside have shown. Both have the same keys. (A22, A24)
type posture struct {
	declared, observed map[string]string
	notEnforced        []string
}

// Keys of a posture.
const (
	postureNetwork = "network"
	postureSockets = "engine_sockets"
	notEnforced    = "not_enforced"
)

// limitInitScheduling says that a session may set PID 1's priority and affinity. gVisor lets it, without any effect: it schedules by
// neither.
const limitInitScheduling = "init_scheduling"

// Evidence returns what is known of the sandbox. All of it was observed before the session began. (A22)
func (s *Sandbox) Evidence() evidence.Sandboxed {
	return evidence.Sandboxed{
		ContainerID: s.container, Image: s.spec.Image, Runtime: s.spec.Runtime,
		Engine: s.venue.cfg.Engine, EngineVersion: s.venue.info.ServerVersion, InitDigest: s.venue.binary.digest,
		Actor: s.id.Actor, Reachability: "none",
		Declared: maps.Clone(s.posture.declared), Observed: maps.Clone(s.posture.observed),
		NotEnforced: slices.Clone(s.posture.notEnforced),
	}
}

// observe asks the engine and looks from inside, and refuses a sandbox that is not what was declared. No session has run in it yet,
// so the probe is the init's own program and may be believed.
func (s *Sandbox) observe(ctx context.Context) error {
	inspected, err := s.venue.docker.ContainerInspect(ctx, s.container)
	if err != nil {
		return fmt.Errorf("inspect: %w", err)
	}
	if inspected.Image != s.spec.Image {
		return evidence.Fail(evidence.StageSandbox, evidence.CodeImageMismatch, inspected.Image,
			fmt.Errorf("created from %s", s.spec.Image))
	}
	var out bytes.Buffer
	err = s.helper(ctx, []string{guest.HelperProbe}, nil, func(p []byte) error {
		if out.Len()+len(p) > wire.MaxJSON {
			return errors.New("the probe says too much")
		}
		_, err := out.Write(p)
		return err
	})
	if err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	var facts wire.Facts
	if err := wire.Decode(out.Bytes(), &facts); err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	s.posture, err = judge(s.spec, unenforced(s.venue.info, s.spec.Runtime), s.venue.info.KernelVersion, inspected, facts)
	return err
}

// judge compares what was declared with what was seen, key by key; the first difference in the order of keys refuses.
func judge(spec Spec, lacking []string, hostKernel string, inspected container.InspectResponse, f wire.Facts) (posture, error) {
	p := posture{declared: declare(spec), notEnforced: slices.Sorted(slices.Values(lacking))}
	p.observed = observedInside(spec, hostKernel, f)
	maps.Copy(p.observed, observedOutside(inspected))
	for limit, key := range map[string]string{LimitMemory: "memory_bytes", LimitPids: "pids", LimitCPU: "cpu_millis", LimitInodes: "workspace_inodes"} {
		if slices.Contains(lacking, limit) {
			p.observed[key] = notEnforced
		}
	}
	for _, key := range slices.Sorted(maps.Keys(p.declared)) {
		if p.observed[key] == p.declared[key] || p.observed[key] == notEnforced {
			continue
		}
		code := evidence.CodeIsolationMismatch
		if key == postureNetwork || key == postureSockets {
			code = evidence.CodeReachabilityAmbiguous // A23
		}
		return p, evidence.Fail(evidence.StageSandbox, code, key, fmt.Errorf("declared %q, observed %q", p.declared[key], p.observed[key]))
	}
	return p, nil
}

func declare(spec Spec) map[string]string {
	num := func(n int64) string { return strconv.FormatInt(n, 10) }
	d := map[string]string{
		"user":            fmt.Sprintf("%d:%d", sessionUID, sessionGID),
		"groups":          "",
		"capabilities":    "none",
		"init":            "uid 0, setuid setgid, out of the session's reach",
		"init_env":        "",
		"no_new_privs":    "true",
		postureNetwork:    "lo",
		postureSockets:    "",
		"root":            "read-only",
		"mounts":          "as declared",
		"writable":        strings.Join([]string{guest.Home, guest.RunDir, guest.Tmp, guest.Workspace}, " "),
		"workspace_bytes": num(pages(spec.WorkspaceBytes)), "workspace_inodes": num(spec.WorkspaceInodes),
		"home_bytes": num(pages(spec.HomeBytes)), "tmp_bytes": num(pages(spec.TmpBytes)),
		"file_bytes": num(spec.FileBytes), "open_files": num(spec.OpenFiles), "core_bytes": "0", "oom_score": "1000",
		"memory_bytes": num(spec.MemoryBytes &^ (page - 1)), "pids": num(spec.Pids), "cpu_millis": num(spec.CPUMillis),
		"cgroup":         "read-only",
		"engine_runtime": spec.Runtime, "engine_network": "none", "engine_root": "read-only", "engine_privileged": "false",
		"engine_capabilities": "SETGID SETUID", "engine_security": "no-new-privileges", "engine_mounts": "init read-only",
		"engine_log": "none", "engine_ipc": "none",
		"engine_limits": fmt.Sprintf("memory %d swap %d cpu %d pids %d", spec.MemoryBytes, spec.MemoryBytes, spec.CPUMillis, spec.Pids),
	}
	switch spec.Runtime {
	case RuntimeRunc:
		d["system_calls"] = "filtered by seccomp"
	case RuntimeRunsc:
		d["system_calls"] = "served by a kernel of its own"
	}
	return d
}

const page = 4096

// pages rounds up, as the kernel does with the size of a tmpfs.
func pages(n int64) int64 { return (n + page - 1) &^ (page - 1) }

func observedInside(spec Spec, hostKernel string, f wire.Facts) map[string]string {
	size := func(target string) string { return strconv.FormatUint(f.Mounts[target].Bytes, 10) }
	u := func(n uint64) string { return strconv.FormatUint(n, 10) }
	groups := make([]string, 0, len(f.Groups))
	for _, g := range f.Groups {
		groups = append(groups, strconv.Itoa(g))
	}
	o := map[string]string{
		"user":         fmt.Sprintf("%d:%d", f.UID, f.GID),
		"groups":       strings.Join(groups, " "),
		"capabilities": capabilities(f.Status),
		"init":         initState(spec, f),
		// HOME is what a runtime adds by itself.
		"init_env":        strings.Join(slices.DeleteFunc(slices.Clone(f.InitEnv), func(n string) bool { return n == "HOME" }), " "),
		"no_new_privs":    strconv.FormatBool(f.NoNewPrivs),
		postureNetwork:    strings.Join(f.Interfaces, " "),
		postureSockets:    strings.Join(f.Sockets, " "),
		"root":            "writable",
		"mounts":          unexpected(f.Mounts),
		"writable":        strings.Join(f.Writable, " "),
		"workspace_bytes": size(guest.Workspace), "workspace_inodes": u(f.Mounts[guest.Workspace].Inodes),
		"home_bytes": size(guest.Home), "tmp_bytes": size(guest.Tmp),
		"file_bytes": u(f.FileBytes), "open_files": u(f.OpenFiles), "core_bytes": u(f.CoreBytes), "oom_score": f.OOMScore,
		"memory_bytes": f.CgroupMemory, "pids": f.CgroupPids, "cpu_millis": cpuMillis(f.CgroupCPU),
		"cgroup":       "read-only",
		"system_calls": "unknown",
	}
	if f.Mounts["/"].ReadOnly {
		o["root"] = "read-only"
	}
	if f.CgroupWritten {
		o["cgroup"] = "writable"
	}
	switch {
	case f.Kernel != hostKernel:
		o["system_calls"] = "served by a kernel of its own"
	case f.Status["Seccomp"] == "2" && f.InitStatus["Seccomp"] == "2":
		o["system_calls"] = "filtered by seccomp"
	}
	return o
}

func capabilities(status map[string]string) string {
	for _, set := range []string{"CapEff", "CapPrm", "CapInh"} {
		if strings.Trim(status[set], "0") != "" || status[set] == "" {
			return set + " " + status[set]
		}
	}
	if strings.Trim(status["CapAmb"], "0") != "" { // gVisor does not list it
		return "CapAmb " + status["CapAmb"]
	}
	return "none"
}

// initState says what PID 1 may do and what the session could do to it.
func initState(spec Spec, f wire.Facts) string {
	breaches := slices.Clone(f.Breaches)
	if spec.Runtime == RuntimeRunsc { // see limitInitScheduling
		breaches = slices.DeleteFunc(breaches, func(b string) bool { return b == "priority" || b == "affinity" })
	}
	const setuidSetgid = "c0"
	switch {
	case len(breaches) != 0:
		return "reached by " + strings.Join(breaches, " ")
	case strings.TrimLeft(f.InitStatus["CapEff"], "0") != setuidSetgid || strings.TrimLeft(f.InitStatus["CapPrm"], "0") != setuidSetgid:
		return "capabilities " + f.InitStatus["CapPrm"]
	}
	return "uid 0, setuid setgid, out of the session's reach"
}

// unexpected names a mount that nobody declared: of the host, or of the image.
func unexpected(mounts map[string]wire.Mount) string {
	known := []string{
		"/", guest.InitDir, guest.Workspace, guest.Home, guest.Tmp, guest.RunDir,
		"/dev", "/dev/pts", "/dev/mqueue", "/etc/hostname", "/etc/hosts", "/etc/resolv.conf",
	}
	for _, target := range slices.Sorted(maps.Keys(mounts)) {
		kernel := target == "/proc" || target == "/sys" || strings.HasPrefix(target, "/proc/") || strings.HasPrefix(target, "/sys/")
		if !kernel && !slices.Contains(known, target) {
			return target
		}
	}
	for _, target := range []string{guest.Workspace, guest.Home, guest.Tmp, guest.RunDir} {
		if mounts[target].Type != "tmpfs" {
			return target + " is " + mounts[target].Type
		}
	}
	if !mounts[guest.InitDir].ReadOnly {
		return guest.InitDir + " is writable"
	}
	return "as declared"
}

// cpuMillis reads "quota period".
func cpuMillis(s string) string {
	quota, period, ok := strings.Cut(s, " ")
	q, qerr := strconv.ParseInt(quota, 10, 64)
	p, perr := strconv.ParseInt(period, 10, 64)
	if !ok || qerr != nil || perr != nil || p <= 0 {
		return s
	}
	return strconv.FormatInt(q*1000/p, 10)
}

func observedOutside(c container.InspectResponse) map[string]string {
	o := map[string]string{}
	h := c.HostConfig
	if h == nil || c.ContainerJSONBase == nil {
		return o
	}
	caps := slices.Clone([]string(h.CapAdd))
	for i := range caps {
		caps[i] = strings.TrimPrefix(caps[i], "CAP_") // newer engines normalise the names
	}
	slices.Sort(caps)
	if !slices.Equal(h.CapDrop, []string{"ALL"}) {
		caps = append(caps, "and what the engine adds")
	}
	pids := int64(-1)
	if h.PidsLimit != nil {
		pids = *h.PidsLimit
	}
	o["engine_runtime"] = h.Runtime
	o["engine_network"] = string(h.NetworkMode)
	o["engine_root"] = "writable"
	if h.ReadonlyRootfs {
		o["engine_root"] = "read-only"
	}
	o["engine_privileged"] = strconv.FormatBool(h.Privileged || h.PidMode.IsHost() || h.UTSMode.IsHost() || len(h.Devices) != 0 || len(h.DeviceRequests) != 0)
	o["engine_capabilities"] = strings.Join(caps, " ")
	o["engine_security"] = strings.Join(h.SecurityOpt, " ")
	o["engine_mounts"] = engineMounts(c)
	o["engine_log"] = h.LogConfig.Type
	o["engine_ipc"] = string(h.IpcMode)
	o["engine_limits"] = fmt.Sprintf("memory %d swap %d cpu %d pids %d", h.Memory, h.MemorySwap, h.NanoCPUs/1_000_000, pids)
	return o
}

func engineMounts(c container.InspectResponse) string {
	if len(c.HostConfig.Binds) != 0 || len(c.HostConfig.VolumesFrom) != 0 {
		return "binds"
	}
	for _, m := range c.Mounts {
		if m.Type == "tmpfs" {
			continue // sized and looked at from inside
		}
		if m.Destination != guest.InitDir || m.RW || m.Type != "volume" {
			return fmt.Sprintf("%s %s", m.Type, m.Destination)
		}
	}
	return "init read-only"
}
