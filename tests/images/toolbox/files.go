package main

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

var fileCommands = map[string]command{
	"write":    {"PATH CONTENT", func(a []string) error { return os.WriteFile(a[0], []byte(a[1]), 0o644) }},
	"append":   {"PATH CONTENT", func(a []string) error { return appendTo(a[0], a[1]) }},
	"replace":  {"PATH OLD NEW", func(a []string) error { return replace(a[0], a[1], a[2]) }},
	"expect":   {"PATH CONTENT", func(a []string) error { return expect(a[0], a[1]) }},
	"await":    {"PATH", func(a []string) error { return await(a[0]) }},
	"mkdir":    {"PATH", func(a []string) error { return os.MkdirAll(a[0], 0o755) }},
	"remove":   {"PATH", func(a []string) error { return remove(a[0]) }},
	"rename":   {"FROM TO", func(a []string) error { return os.Rename(a[0], a[1]) }},
	"copy":     {"FROM TO", func(a []string) error { return encode(a[0], "raw", a[1]) }},
	"symlink":  {"TARGET PATH", func(a []string) error { return os.Symlink(a[0], a[1]) }},
	"link":     {"FROM TO", func(a []string) error { return os.Link(a[0], a[1]) }},
	"chmod":    {"OCTAL PATH", func(a []string) error { return chmod(a[0], a[1]) }},
	"chown":    {"UID PATH", func(a []string) error { return withNumber(a[0], func(n int) error { return os.Lchown(a[1], n, n) }) }},
	"truncate": {"PATH BYTES", func(a []string) error { return withSize(a[1], func(n int64) error { return sparse(a[0], n) }) }},
	"random":   {"PATH BYTES", func(a []string) error { return withSize(a[1], func(n int64) error { return random(a[0], n) }) }},
	"many":     {"FOLDER COUNT", func(a []string) error { return withNumber(a[1], func(n int) error { return many(a[0], n) }) }},
	"deep":     {"FOLDER DEPTH", func(a []string) error { return withNumber(a[1], func(n int) error { return deep(a[0], n) }) }},
	"fifo":     {"PATH", func(a []string) error { return syscall.Mkfifo(a[0], 0o644) }},
	"socket":   {"PATH", func(a []string) error { return socket(a[0]) }},
	"device":   {"PATH", func(a []string) error { return syscall.Mknod(a[0], syscall.S_IFCHR|0o666, 1<<8|3) }},
	// encode copies a file as raw, base64, hex, url, json, quoted (as Go does) or lines (each line alone, in reverse order).
	"encode": {"FROM ENCODING TO", func(a []string) error { return encode(a[0], a[1], a[2]) }},
	// name makes an empty file whose name is a file's content, pipe a FIFO of that name, point a link with that target.
	"name":   {"FROM FOLDER", func(a []string) error { return name(a[0], a[1]) }},
	"pipe":   {"FROM FOLDER", func(a []string) error { return pipe(a[0], a[1]) }},
	"point":  {"FROM PATH", func(a []string) error { return point(a[0], a[1]) }},
	"getenv": {"NAME TO", func(a []string) error { return os.WriteFile(a[1], []byte(os.Getenv(a[0])), 0o644) }},
	// churn rewrites a file and renames another back and forth until the time is over.
	"churn": {"FOLDER DURATION", func(a []string) error {
		return withDuration(a[1], func(d time.Duration) error { return churn(a[0], d) })
	}},
}

func appendTo(path, content string) error {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if _, err := file.WriteString(content); err != nil {
		_ = file.Close()
		return err
	}
	return file.Close()
}

func replace(path, old, replacement string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !strings.Contains(string(data), old) {
		return fmt.Errorf("%s does not hold it", path)
	}
	return os.WriteFile(path, []byte(strings.ReplaceAll(string(data), old, replacement)), 0o644)
}

func expect(path, content string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if string(data) != content {
		return fmt.Errorf("%s holds %q", path, data)
	}
	return nil
}

func await(path string) error {
	for {
		if _, err := os.Lstat(path); err == nil {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// remove is not os.RemoveAll alone: that takes a missing path for success.
func remove(path string) error {
	if _, err := os.Lstat(path); err != nil {
		return err
	}
	return os.RemoveAll(path)
}

func chmod(octal, path string) error {
	mode, err := strconv.ParseUint(octal, 8, 32)
	if err != nil {
		return err
	}
	return syscall.Chmod(path, uint32(mode))
}

func sparse(path string, size int64) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if err := file.Truncate(size); err != nil {
		_ = file.Close()
		return err
	}
	return file.Close()
}

// random writes bytes that do not compress and are the same every time.
func random(path string, size int64) error {
	source := rand.NewChaCha8([32]byte{})
	data := make([]byte, size)
	if _, err := source.Read(data); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}

func many(folder string, count int) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for i := range count {
		if err := os.WriteFile(filepath.Join(folder, strconv.Itoa(i)), nil, 0o644); err != nil {
			return fmt.Errorf("after %d: %w", i, err)
		}
	}
	return nil
}

// deep makes a chain of folders, one at a time, since the whole path may be longer than the system takes, and one
// file at its end.
func deep(folder string, depth int) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	start, err := os.Getwd()
	if err != nil {
		return err
	}
	if err := os.Chdir(folder); err != nil {
		return err
	}
	for i := range depth {
		if err := os.Mkdir("d", 0o755); err != nil {
			return fmt.Errorf("after %d: %w", i, err)
		}
		if err := os.Chdir("d"); err != nil {
			return err
		}
	}
	if err := os.WriteFile("end", nil, 0o644); err != nil {
		return err
	}
	return os.Chdir(start)
}

func socket(path string) error {
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return err
	}
	listener.SetUnlinkOnClose(false)
	return listener.Close()
}

func encode(from, encoding, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	var encoded string
	switch encoding {
	case "raw":
		encoded = string(data)
	case "base64":
		encoded = base64.StdEncoding.EncodeToString(data)
	case "hex":
		encoded = hex.EncodeToString(data)
	case "url":
		encoded = url.QueryEscape(string(data))
	case "json":
		text, err := json.Marshal(string(data))
		if err != nil {
			return err
		}
		encoded = string(text)
	case "quoted":
		encoded = strconv.Quote(string(data))
	case "lines":
		for line := range strings.Lines(string(data)) {
			encoded = line + "\n--\n" + encoded
		}
	default:
		return fmt.Errorf("unknown encoding %q", encoding)
	}
	return os.WriteFile(to, []byte(encoded), 0o644)
}

func name(from, folder string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, string(data)), nil, 0o644)
}

func pipe(from, folder string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return syscall.Mkfifo(filepath.Join(folder, string(data)), 0o644)
}

func point(from, path string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.Symlink(string(data), path)
}

func churn(folder string, duration time.Duration) error {
	for i, end := 0, time.Now().Add(duration); time.Now().Before(end); i++ {
		path := filepath.Join(folder, "churn-"+strconv.Itoa(i%2))
		if err := os.WriteFile(path, []byte(strings.Repeat(strconv.Itoa(i), 1+i%1000)), 0o644); err != nil {
			return err
		}
		if err := os.Rename(path, filepath.Join(folder, "churned")); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return nil
}

func withNumber(text string, run func(int) error) error {
	n, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	return run(n)
}

func withSize(text string, run func(int64) error) error {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return err
	}
	return run(n)
}

func withDuration(text string, run func(time.Duration) error) error {
	d, err := time.ParseDuration(text)
	if err != nil {
		return err
	}
	return run(d)
}

// show prints a folder's tree, for tests that look at what a session finds.
func show(folder string) error {
	return filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			fmt.Printf("%q: %v\n", path, err)
			return nil
		}
		fmt.Printf("%v %q\n", entry.Type(), path)
		return nil
	})
}
