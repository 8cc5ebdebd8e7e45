package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

var outputCommands = map[string]command{
	"print":  {"TEXT", func(a []string) error { _, err := fmt.Println(a[0]); return err }},
	"stderr": {"TEXT", func(a []string) error { _, err := fmt.Fprintln(os.Stderr, a[0]); return err }},
	"cat":    {"PATH", func(a []string) error { return cat(os.Stdout, a[0]) }},
	"warn":   {"PATH", func(a []string) error { return cat(os.Stderr, a[0]) }}, // cat to standard error
	"spray":  {"TEXT", func(a []string) error { return spray(a[0]) }},
	"tree":   {"FOLDER", func(a []string) error { return show(a[0]) }},
	"env":    {"", func([]string) error { _, err := fmt.Println(strings.Join(os.Environ(), "\n")); return err }},
	// line writes one line of that many bytes.
	"line":  {"BYTES", func(a []string) error { return withSize(a[0], line) }},
	"lines": {"COUNT", func(a []string) error { return withNumber(a[0], lines) }},
	"flood": {"DURATION", func(a []string) error { return withDuration(a[0], flood) }},
	"exit":  {"STATUS", func(a []string) error { return withNumber(a[0], func(n int) error { os.Exit(n); return nil }) }},
	"die":   {"SIGNAL", func(a []string) error { return withNumber(a[0], die) }},
	// stay ignores all signals that can be ignored, and stays.
	"stay": {"", func([]string) error { return stay() }},
	// closed closes all output and stays for the time.
	"closed": {"DURATION", func(a []string) error { return withDuration(a[0], closed) }},
}

func cat(to *os.File, path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	_, err = to.Write(data)
	return err
}

// spray writes a text to every descriptor that the process has, whatever it is, and succeeds when one took it.
func spray(text string) error {
	took := 0
	for descriptor := range 256 {
		if n, err := syscall.Write(descriptor, []byte(text)); err == nil && n == len(text) {
			took++
		}
	}
	if took == 0 {
		return errors.New("no descriptor took it")
	}
	return nil
}

func line(size int64) error {
	block := strings.Repeat("x", 1<<16)
	for left := size; left > 0; left -= int64(len(block)) {
		if _, err := os.Stdout.WriteString(block[:min(int64(len(block)), left)]); err != nil {
			return err
		}
	}
	_, err := fmt.Println()
	return err
}

func lines(count int) error {
	out := bufio.NewWriter(os.Stdout)
	for i := range count {
		if _, err := fmt.Fprintf(out, "line %d\n", i); err != nil {
			return err
		}
	}
	return out.Flush()
}

func flood(duration time.Duration) error {
	block := []byte(strings.Repeat("flood\n", 4096))
	for end := time.Now().Add(duration); time.Now().Before(end); {
		if _, err := os.Stdout.Write(block); err != nil {
			return err
		}
	}
	return nil
}

func die(number int) error {
	if err := syscall.Kill(os.Getpid(), syscall.Signal(number)); err != nil {
		return err
	}
	select {}
}

func stay() error {
	signal.Ignore()
	for {
		time.Sleep(time.Hour)
	}
}

func closed(duration time.Duration) error {
	for descriptor := range 3 {
		if err := syscall.Close(descriptor); err != nil {
			return err
		}
	}
	time.Sleep(duration)
	return nil
}
