package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rein-aharness/harness/sandbox/internal/wire"
)

// runProbe looks at the sandbox as the session's user will, and tries what must not work. It writes the facts to standard output.
func runProbe(args []string) error {
	if len(args) != 0 {
		return errors.New("probe: takes no argument")
	}
	facts, err := probe()
	if err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	return json.NewEncoder(os.Stdout).Encode(facts)
}

func probe() (f wire.Facts, err error) {
	f.UID, f.GID = os.Getuid(), os.Getgid()
	if f.Groups, err = os.Getgroups(); err != nil {
		return f, err
	}
	if f.Status, err = status("/proc/self/status"); err != nil {
		return f, err
	}
	noNew, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	if err != nil {
		return f, err
	}
	f.NoNewPrivs = noNew == 1
	if f.InitStatus, err = status("/proc/1/status"); err != nil {
		return f, err
	}
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return f, err
	}
	f.Kernel = unix.ByteSliceToString(uts.Release[:])
	interfaces, err := net.Interfaces()
	if err != nil {
		return f, err
	}
	for _, i := range interfaces {
		f.Interfaces = append(f.Interfaces, i.Name)
	}
	if f.Mounts, err = mounts(); err != nil {
		return f, err
	}
	f.Writable = writable(f.Mounts)
	f.Sockets = sockets()
	f.Breaches, f.InitEnv = attackInit()
	for _, l := range []struct {
		which int
		to    *uint64
	}{{unix.RLIMIT_FSIZE, &f.FileBytes}, {unix.RLIMIT_NOFILE, &f.OpenFiles}, {unix.RLIMIT_CORE, &f.CoreBytes}} {
		var r unix.Rlimit
		if err := unix.Getrlimit(l.which, &r); err != nil {
			return f, err
		}
		*l.to = r.Max
	}
	score, err := os.ReadFile(oomScore)
	if err != nil {
		return f, err
	}
	f.OOMScore = strings.TrimSpace(string(score))
	f.CgroupMemory = firstOf("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory.max")
	f.CgroupPids = firstOf("/sys/fs/cgroup/pids/pids.max", "/sys/fs/cgroup/pids.max")
	f.CgroupCPU = firstOf("/sys/fs/cgroup/cpu.max")
	if quota := firstOf("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us"); quota != "" {
		f.CgroupCPU = quota + " " + firstOf("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us")
	}
	for _, name := range []string{"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/pids/pids.max", "/sys/fs/cgroup/pids.max"} {
		if file, err := os.OpenFile(name, os.O_WRONLY, 0); err == nil {
			f.CgroupWritten = true
			_ = file.Close() // nothing was written
		}
	}
	return f, nil
}

// status reads the lines that matter of a process's status file.
func status(name string) (map[string]string, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	lines := map[string]string{}
	for line := range strings.Lines(string(text)) {
		key, value, ok := strings.Cut(line, ":")
		if ok && slices.Contains([]string{"CapInh", "CapPrm", "CapEff", "CapAmb", "NoNewPrivs", "Seccomp"}, key) {
			lines[key] = strings.TrimSpace(value)
		}
	}
	return lines, nil
}

func mounts() (map[string]wire.Mount, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	found := map[string]wire.Mount{}
	for line := range strings.Lines(string(text)) {
		before, after, ok := strings.Cut(line, " - ")
		fields, kind := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 6 || len(kind) < 1 {
			return nil, fmt.Errorf("mount table line %q", line)
		}
		target := fields[4]
		m := wire.Mount{Type: kind[0], ReadOnly: slices.Contains(strings.Split(fields[5], ","), "ro")}
		var st unix.Statfs_t
		if err := unix.Statfs(target, &st); err == nil { // a folder that this user cannot enter has no size to see
			m.Bytes, m.Inodes = st.Blocks*uint64(st.Bsize), st.Files //nolint:gosec // positive
		}
		found[target] = m
	}
	return found, nil
}

// writable tries to make a file in every mount and in the folders that matter most.
func writable(mounts map[string]wire.Mount) []string {
	places := []string{"/", "/bin", "/dev", "/dev/shm", "/dev/mqueue", "/etc", "/home", "/lib", "/opt", "/proc", "/root", "/run", "/sbin", "/sys", "/sys/fs/cgroup", "/usr", "/usr/local", "/var", "/var/tmp", InitDir}
	for target := range mounts {
		places = append(places, target)
	}
	slices.Sort(places)
	var open []string
	for _, dir := range slices.Compact(places) {
		name := path.Join(dir, ".harness-probe")
		fd, err := unix.Open(name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		if err != nil {
			continue
		}
		open = append(open, dir)
		_ = unix.Close(fd)
		_ = unix.Unlink(name) // left behind it would show in the capture
	}
	return open
}

func sockets() []string {
	var found []string
	for _, name := range []string{
		"/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock", "/run/podman/podman.sock", "/run/crio/crio.sock", "/var/run/crio/crio.sock",
	} {
		if _, err := os.Lstat(name); err == nil {
			found = append(found, name)
		}
	}
	return found
}

// attackInit tries on PID 1 what a session must not be able to do, and returns what worked. Reading its environment is no breach in
// itself (gVisor allows it): the names found are reported, and must be none that mean anything.
func attackInit() (breaches, env []string) {
	attempt := func(name string, worked bool) {
		if worked && !slices.Contains(breaches, name) {
			breaches = append(breaches, name)
		}
	}
	attempt("signal", unix.Kill(1, 0) == nil)
	attempt("ptrace", unix.PtraceSeize(1) == nil)
	for _, tid := range initThreads() {
		attempt("priority", unix.Setpriority(unix.PRIO_PROCESS, tid, 19) == nil)
		attempt("affinity", setAffinity(tid) == nil)
	}
	core := unix.Rlimit{}
	attempt("prlimit", unix.Prlimit(1, unix.RLIMIT_CORE, &core, nil) == nil)
	for _, name := range []string{"mem", "fd/0", "fd/1", "oom_score_adj"} {
		f, err := os.OpenFile("/proc/1/"+name, os.O_RDWR, 0)
		attempt("open "+name, err == nil)
		if err == nil {
			_ = f.Close()
		}
	}
	if text, err := os.ReadFile("/proc/1/environ"); err == nil {
		for kv := range strings.SplitSeq(string(text), "\x00") {
			if name, _, ok := strings.Cut(kv, "="); ok {
				env = append(env, name)
			}
		}
	}
	return breaches, env
}

// initThreads lists PID 1's threads, each of which has credentials of its own; where they cannot be listed, the first.
func initThreads() []int {
	threads := []int{1}
	entries, err := os.ReadDir("/proc/1/task")
	if err != nil {
		return threads
	}
	for _, e := range entries {
		if tid, err := strconv.Atoi(e.Name()); err == nil && tid != 1 {
			threads = append(threads, tid)
		}
	}
	return threads
}

func setAffinity(tid int) error {
	var set unix.CPUSet
	set.Set(0)
	return unix.SchedSetaffinity(tid, &set)
}

func firstOf(names ...string) string {
	for _, name := range names {
		if text, err := os.ReadFile(name); err == nil {
			return strings.TrimSpace(string(text))
		}
	}
	return ""
}
