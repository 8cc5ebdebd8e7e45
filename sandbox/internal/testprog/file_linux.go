package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// fill writes zeros until the file system, or the file size limit, refuses, and says how much went in.
func fill(args []string) error {
	f, err := os.Create(args[0])
	if err != nil {
		return err
	}
	chunk, total := make([]byte, 1<<20), 0
	for {
		n, err := f.Write(chunk)
		total += n
		if err != nil {
			fmt.Println(total)
			return err
		}
	}
}

// inodes makes empty files until it cannot, and at most that many.
func inodes(args []string) error {
	most, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	for i := range most {
		f, err := os.Create(filepath.Join(args[0], strconv.Itoa(i)))
		if err != nil {
			fmt.Println(i)
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}

// write makes a file; escapes of Go's string syntax allow any bytes in its name and content.
func write(args []string) error {
	name, err := unescape(args[0])
	if err != nil {
		return err
	}
	content, err := unescape(args[1])
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, []byte(content), 0o644)
}

func unescape(s string) (string, error) { return strconv.Unquote(`"` + s + `"`) }

func touch(args []string) error {
	f, err := os.OpenFile(args[0], os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

func mkfifo(args []string) error { return unix.Mkfifo(args[0], 0o600) }

func socket(args []string) error {
	l, err := net.Listen("unix", args[0])
	if err != nil {
		return err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	return l.Close()
}

func sparse(args []string) error {
	n, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return err
	}
	if err := touch(args); err != nil {
		return err
	}
	return os.Truncate(args[0], n)
}

func chmod(args []string) error {
	mode, err := strconv.ParseUint(args[1], 8, 32)
	if err != nil {
		return err
	}
	return os.Chmod(args[0], os.FileMode(mode))
}

func link(args []string) error    { return os.Link(args[0], args[1]) }
func symlink(args []string) error { return os.Symlink(args[0], args[1]) }
func remove(args []string) error  { return os.RemoveAll(args[0]) }

// deep makes that many folders, each in the one before, with a file in the last.
func deep(args []string) error {
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	if err := os.Chdir(args[0]); err != nil {
		return err
	}
	for range n {
		if err := os.Mkdir("d", 0o755); err != nil {
			return err
		}
		if err := os.Chdir("d"); err != nil {
			return err
		}
	}
	return os.WriteFile("f", nil, 0o600)
}

func cat(args []string) error {
	b, err := os.ReadFile(args[0])
	fmt.Print(strings.ToValidUTF8(string(b), "?"))
	return err
}
