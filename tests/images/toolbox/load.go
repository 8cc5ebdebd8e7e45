package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// What takes all of something says how much it got and fails with the reason it got no more.
var loadCommands = map[string]command{
	"sleep": {"DURATION", func(a []string) error {
		return withDuration(a[0], func(d time.Duration) error { time.Sleep(d); return nil })
	}},
	"spin":     {"DURATION", func(a []string) error { return withDuration(a[0], spin) }},
	"memory":   {"BYTES", func(a []string) error { return withSize(a[0], memory) }},
	"spawn":    {"COUNT DURATION", func(a []string) error { return withNumber(a[0], func(n int) error { return spawn(n, a[1]) }) }},
	"forkbomb": {"DURATION", func(a []string) error { return withDuration(a[0], forkbomb) }},
	"zombies":  {"COUNT", func(a []string) error { return withNumber(a[0], zombies) }},
	"open":     {"COUNT", func(a []string) error { return withNumber(a[0], openFiles) }},
	"fill":     {"PATH BYTES", func(a []string) error { return withSize(a[1], func(n int64) error { return fill(a[0], n) }) }},
	"inodes":   {"FOLDER COUNT", func(a []string) error { return withNumber(a[1], func(n int) error { return inodes(a[0], n) }) }},
}

func spin(duration time.Duration) error {
	for end := time.Now().Add(duration); time.Now().Before(end); {
	}
	return nil
}

// memory takes memory in steps of 1 MiB and touches every page of it.
func memory(size int64) error {
	const step = 1 << 20
	var held [][]byte
	for taken := int64(0); taken < size; taken += step {
		block := make([]byte, step)
		for i := 0; i < step; i += 4096 {
			block[i] = 1
		}
		held = append(held, block)
	}
	fmt.Printf("took %d bytes\n", int64(len(held))*step)
	return nil
}

func spawn(count int, duration string) error {
	for i := range count {
		if err := exec.Command("/proc/self/exe", "sleep", duration).Start(); err != nil {
			return fmt.Errorf("after %d: %w", i, err)
		}
	}
	fmt.Printf("spawned %d\n", count)
	return nil
}

// forkbomb starts copies of itself that do the same. All end by themselves when the time is over.
func forkbomb(duration time.Duration) error {
	end := time.Now().Add(duration)
	for time.Now().Before(end) {
		left := time.Until(end).Round(time.Millisecond)
		if err := exec.Command("/proc/self/exe", "forkbomb", left.String()).Start(); err != nil {
			time.Sleep(time.Millisecond) // at the limit: stay there
		}
	}
	return nil
}

// zombies leaves ended children that nobody waits for.
func zombies(count int) error {
	for i := range count {
		if err := exec.Command("/proc/self/exe", "sleep", "0s").Start(); err != nil {
			return fmt.Errorf("after %d: %w", i, err)
		}
	}
	time.Sleep(200 * time.Millisecond)
	return nil
}

func openFiles(count int) error {
	for i := range count {
		file, err := os.Open("/dev/null")
		if err != nil {
			return fmt.Errorf("after %d: %w", i, err)
		}
		defer file.Close()
	}
	return nil
}

func fill(path string, size int64) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	block := make([]byte, 1<<20)
	for i := range block {
		block[i] = byte(i * 7)
	}
	var written int64
	for written < size {
		n, err := file.Write(block[:min(int64(len(block)), size-written)])
		written += int64(n)
		if err != nil {
			return fmt.Errorf("after %d bytes: %w", written, err)
		}
	}
	return nil
}

// inodes makes empty folders, which need no space but an inode each.
func inodes(folder string, count int) error {
	for i := range count {
		if err := os.Mkdir(filepath.Join(folder, "i"+strconv.Itoa(i)), 0o755); err != nil {
			return fmt.Errorf("after %d: %w", i, err)
		}
	}
	return nil
}
