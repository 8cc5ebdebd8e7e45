package canary_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// process is what the test sees of one process.
type process struct {
	pid, parent int
	arguments   []string
	environment []byte
	closed      bool // its environment is not for the test to read
}

// snapshot is every process there is. One that ends meanwhile is left out.
func snapshot(t *testing.T) (all []process) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	require.NoError(t, err)
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		folder := filepath.Join("/proc", entry.Name())
		arguments, err := os.ReadFile(filepath.Join(folder, "cmdline"))
		environment, envErr := os.ReadFile(filepath.Join(folder, "environ"))
		closed := errors.Is(envErr, fs.ErrPermission)
		if closed {
			envErr = nil
		}
		stat, statErr := os.ReadFile(filepath.Join(folder, "stat"))
		if err := errors.Join(err, envErr, statErr); err != nil {
			require.True(t, errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH), "%v", err)
			continue
		}
		// The name, in parentheses, may hold anything.
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		parent, err := strconv.Atoi(fields[1])
		require.NoError(t, err)
		all = append(all, process{
			pid: pid, parent: parent, environment: environment, closed: closed,
			arguments: strings.Split(strings.TrimSuffix(string(arguments), "\x00"), "\x00"),
		})
	}
	return all
}

// descendants are the children of a process, and theirs.
func descendants(all []process, of int) (pids []int) {
	for _, p := range all {
		if p.parent == of {
			pids = append(append(pids, p.pid), descendants(all, p.pid)...)
		}
	}
	return pids
}

func everybody(process) bool { return true }

// processes looks at the arguments and the environment of each process that is asked for, and gives those whose environment has
// something.
func (s *search) processes(t *testing.T, of func(process) bool) (holders []process) {
	t.Helper()
	for _, p := range snapshot(t) {
		if !of(p) {
			continue
		}
		s.look("arguments", []byte(strings.Join(p.arguments, "\x00")))
		before := len(s.found)
		s.look("environments", p.environment)
		if len(s.found) > before {
			holders = append(holders, p)
		}
	}
	return holders
}

// family says of a process whether it is one of those given or descends from one.
func family(t *testing.T, roots ...int) func(process) bool {
	t.Helper()
	all := snapshot(t)
	members := slices.Clone(roots)
	for _, root := range roots {
		members = append(members, descendants(all, root)...)
	}
	return func(p process) bool { return slices.Contains(members, p.pid) }
}
