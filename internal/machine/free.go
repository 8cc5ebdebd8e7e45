package machine

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// FreeMemory is the memory that programs could take without swapping, in bytes, as the kernel estimates it.
func FreeMemory() (int64, error) {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0, fmt.Errorf("read the free memory: %w", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		value, found := strings.CutPrefix(lines.Text(), "MemAvailable:")
		if !found {
			continue
		}
		kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read the free memory: %w", err)
		}
		return kib << 10, nil
	}
	return 0, errors.Join(errors.New("read the free memory: the kernel does not say"), lines.Err())
}

// FreeDisk is the space that is left to ordinary users on the file system of a folder, in bytes.
func FreeDisk(folder string) (int64, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(folder, &stat); err != nil {
		return 0, fmt.Errorf("read the free disk space of %s: %w", folder, err)
	}
	return int64(stat.Bavail) * stat.Bsize, nil
}
