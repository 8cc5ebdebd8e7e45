package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// The probes try what a sandbox must not allow; each succeeds when it is allowed.
var probeCommands = map[string]command{
	"id":         {"", func([]string) error { return identity() }},
	"interfaces": {"", func([]string) error { return interfaces() }},
	"connect":    {"NETWORK ADDRESS", func(a []string) error { return connect(a[0], a[1]) }},
	"resolve":    {"NAME", func(a []string) error { _, err := net.LookupHost(a[0]); return err }},
	"rawsocket":  {"", func([]string) error { return rawSocket() }},
	"kill":       {"PID SIGNAL", func(a []string) error { return kill(a[0], a[1]) }},
	"killall":    {"", func([]string) error { return syscall.Kill(-1, syscall.SIGKILL) }},
	"trace":      {"PID", func(a []string) error { return withNumber(a[0], syscall.PtraceAttach) }},
	"readmemory": {"PID", func(a []string) error { return readMemory(a[0]) }},
	"limit":      {"PID", func(a []string) error { return withNumber(a[0], limit) }},
	"affinity":   {"PID", func(a []string) error { return withNumber(a[0], affinity) }},
	"schedule":   {"PID", func(a []string) error { return withNumber(a[0], idle) }},
	"nice": {"PID", func(a []string) error {
		return withNumber(a[0], func(n int) error { return syscall.Setpriority(syscall.PRIO_PROCESS, n, 19) })
	}},
	"oom":       {"PID SCORE", func(a []string) error { return os.WriteFile("/proc/"+a[0]+"/oom_score_adj", []byte(a[1]), 0) }},
	"fds":       {"PID", func(a []string) error { return descriptors(a[0]) }},
	"openfd":    {"PID FD", func(a []string) error { return openWrite("/proc/" + a[0] + "/fd/" + a[1]) }},
	"openwrite": {"PATH", func(a []string) error { return openWrite(a[0]) }},
	"root":      {"PID", func(a []string) error { _, err := os.ReadDir("/proc/" + a[0] + "/root/"); return err }},
	"mount":     {"", func([]string) error { return syscall.Mount("none", "/tmp", "tmpfs", 0, "") }},
	"remount":   {"PATH", func(a []string) error { return syscall.Mount("", a[0], "", syscall.MS_REMOUNT|syscall.MS_BIND, "") }},
	"chroot":    {"", func([]string) error { return syscall.Chroot("/tmp") }},
	"setuid":    {"UID", func(a []string) error { return withNumber(a[0], syscall.Setuid) }},
	"unshare":   {"", func([]string) error { return syscall.Unshare(syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS) }},
	"hostname":  {"NAME", func(a []string) error { return syscall.Sethostname([]byte(a[0])) }},
}

// identity prints who the process is and what it may, as the kernel says.
func identity() error {
	fmt.Printf("uid %d gid %d\n", os.Getuid(), os.Getgid())
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(status)) {
		switch name, _, _ := strings.Cut(line, ":"); name {
		case "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp":
			fmt.Print(line)
		}
	}
	return nil
}

func interfaces() error {
	all, err := net.Interfaces()
	if err != nil {
		return err
	}
	for _, one := range all {
		fmt.Println(one.Name)
	}
	return nil
}

func connect(network, address string) error {
	connection, err := net.DialTimeout(network, address, 2*time.Second)
	if err != nil {
		return err
	}
	return connection.Close()
}

func rawSocket() error {
	descriptor, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_RAW, syscall.IPPROTO_ICMP)
	if err != nil {
		return err
	}
	return syscall.Close(descriptor)
}

func kill(pid, signal string) error {
	return withNumber(pid, func(p int) error {
		return withNumber(signal, func(s int) error { return syscall.Kill(p, syscall.Signal(s)) })
	})
}

func readMemory(pid string) error {
	file, err := os.Open("/proc/" + pid + "/mem")
	if err != nil {
		return err
	}
	return file.Close()
}

// limit tries to take all open files from a process.
func limit(pid int) error {
	none := syscall.Rlimit{}
	return call(syscall.SYS_PRLIMIT64, uintptr(pid), syscall.RLIMIT_NOFILE, uintptr(unsafe.Pointer(&none)))
}

// affinity tries to bind a process to the first CPU.
func affinity(pid int) error {
	first := uint64(1)
	return call(syscall.SYS_SCHED_SETAFFINITY, uintptr(pid), unsafe.Sizeof(first), uintptr(unsafe.Pointer(&first)))
}

// idle tries to give a process only the time that nobody wants.
func idle(pid int) error {
	const policyIdle = 5
	var parameter int32
	return call(syscall.SYS_SCHED_SETSCHEDULER, uintptr(pid), policyIdle, uintptr(unsafe.Pointer(&parameter)))
}

func call(number, a, b, c uintptr) error {
	if _, _, failure := syscall.RawSyscall6(number, a, b, c, 0, 0, 0); failure != 0 {
		return failure
	}
	return nil
}

func descriptors(pid string) error {
	entries, err := os.ReadDir(filepath.Join("/proc", pid, "fd"))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		target, err := os.Readlink(filepath.Join("/proc", pid, "fd", entry.Name()))
		if err != nil {
			return err
		}
		fmt.Println(entry.Name(), target)
	}
	return nil
}

func openWrite(path string) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return file.Close()
}
