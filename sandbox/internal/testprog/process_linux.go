package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func echo(args []string) error {
	_, err := fmt.Println(strings.Join(args, " "))
	return err
}

func env([]string) error {
	for _, kv := range os.Environ() {
		fmt.Println(kv)
	}
	return nil
}

func exit(args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	os.Exit(n)
	return nil
}

func die([]string) error {
	if err := unix.Kill(os.Getpid(), unix.SIGKILL); err != nil {
		return err
	}
	select {}
}

func sleep(args []string) error {
	d, err := time.ParseDuration(args[0])
	time.Sleep(d)
	return err
}

// line writes one line of that many bytes.
func line(args []string) error {
	n, err := strconv.ParseInt(args[0], 10, 64)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(os.Stdout)
	chunk := []byte(strings.Repeat("x", 1<<16))
	for ; n > 0; n -= int64(len(chunk)) {
		if _, err := w.Write(chunk[:min(n, int64(len(chunk)))]); err != nil {
			return err
		}
	}
	return w.Flush()
}

func self(detach bool, args ...string) (*exec.Cmd, error) {
	c := exec.Command("/proc/self/exe", args...)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: detach}
	return c, c.Start()
}

// background leaves a process behind that holds the output and goes on changing a file.
func background(args []string) error {
	if len(args) == 1 {
		_, err := self(true, "background", args[0], "child")
		return err
	}
	for i := 0; ; i++ {
		if err := os.WriteFile(args[0], []byte(strconv.Itoa(i)), 0o600); err != nil {
			return err
		}
	}
}

// orphans leaves that many short-lived processes for PID 1 to collect.
func orphans(args []string) error {
	if len(args) == 0 {
		return nil
	}
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	for range n {
		c, err := self(true, "orphans")
		if err != nil {
			return err
		}
		_ = c.Process.Release()
	}
	return nil
}

// forkbomb starts itself twice for ever, in sessions of their own, and says first that it began.
func forkbomb(args []string) error {
	if len(args) == 0 {
		fmt.Println("started")
	}
	for {
		_, _ = self(true, "forkbomb", "child")
		_, _ = self(false, "forkbomb", "child")
	}
}

// stubborn ignores what can be ignored and comes back in a new process when it is stopped.
func stubborn([]string) error {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	fmt.Println("started")
	for {
		time.Sleep(time.Millisecond)
	}
}

// eat touches that many bytes of memory.
func eat(args []string) error {
	n, err := strconv.ParseInt(args[0], 10, 64)
	if err != nil {
		return err
	}
	b := make([]byte, n)
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
	fmt.Println("ate", len(b))
	return nil
}

func dial(args []string) error {
	c, err := net.DialTimeout(args[0], args[1], time.Second)
	if err != nil {
		return err
	}
	return c.Close()
}

func interfaces([]string) error {
	list, err := net.Interfaces()
	if err != nil {
		return err
	}
	for _, i := range list {
		fmt.Println(i.Name)
	}
	return nil
}

// attack tries one thing on PID 1 and fails when it fails.
func attack(args []string) error {
	switch args[0] {
	case "signal":
		return unix.Kill(1, unix.SIGKILL)
	case "stop":
		return unix.Kill(1, unix.SIGSTOP)
	case "ptrace":
		return unix.PtraceSeize(1)
	case "prlimit":
		return unix.Prlimit(1, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1, Max: 1}, nil)
	case "priority":
		return unix.Setpriority(unix.PRIO_PROCESS, 1, 19)
	case "affinity":
		var set unix.CPUSet
		set.Set(0)
		return unix.SchedSetaffinity(1, &set)
	case "setuid":
		return unix.Setuid(0)
	case "mount":
		return unix.Mount("none", "/tmp", "tmpfs", 0, "")
	case "chroot":
		return unix.Chroot("/tmp")
	case "mknod":
		return unix.Mknod("/workspace/device", unix.S_IFBLK|0o600, 0)
	case "rawsocket":
		_, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)
		return err
	case "userns":
		return unix.Unshare(unix.CLONE_NEWUSER)
	}
	f, err := os.OpenFile(args[0], os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

// descriptors lists what this process was given beside its standard streams. Go's own runtime keeps some of its making.
func descriptors([]string) error {
	for fd := 3; fd < 256; fd++ {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); !errors.Is(err, unix.EBADF) {
			if target, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)); err == nil && !strings.HasPrefix(target, "anon_inode:") && !strings.HasPrefix(target, "/sys/fs/cgroup/") {
				fmt.Println(fd, target)
			}
		}
	}
	return nil
}
