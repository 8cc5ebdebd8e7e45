package stack

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Disk is a small file system of a test's own.
type Disk struct {
	Dir string
}

// SmallDisk makes a disk of that many bytes. It is gone when the test ends.
func SmallDisk(t testing.TB, bytes string) *Disk {
	t.Helper()
	d := &Disk{Dir: t.TempDir()}
	// For whoever it is meant; the folder of a test's folders is for its user alone.
	if err := os.Chmod(filepath.Dir(d.Dir), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("none", d.Dir, "tmpfs", 0, "mode=755,size="+bytes); err != nil {
		t.Fatalf("mount a small disk: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(d.Dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount the small disk: %v", err)
		}
	})
	return d
}

func (d *Disk) ballast() string { return filepath.Join(d.Dir, "ballast") }

// Fill leaves no byte free.
func (d *Disk) Fill(t testing.TB) {
	t.Helper()
	f, err := os.Create(d.ballast())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, block := range []int{1 << 20, 4096, 1} {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, block))
		}
		if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, io.ErrShortWrite) {
			t.Fatalf("fill the small disk: %v", err)
		}
	}
}

// Free undoes Fill.
func (d *Disk) Free(t testing.TB) {
	t.Helper()
	if err := os.Remove(d.ballast()); err != nil {
		t.Fatal(err)
	}
}
