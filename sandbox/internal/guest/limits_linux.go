package guest

import (
	"os"
	"strconv"
	"strings"
)

// oomKills reads how many processes of this container the memory limit has killed, or -1 where the runtime does not tell.
func oomKills() int64 {
	for _, f := range []string{"/sys/fs/cgroup/memory/memory.oom_control", "/sys/fs/cgroup/memory.events"} {
		text, err := os.ReadFile(f)
		if err != nil {
			continue // the other hierarchy
		}
		for line := range strings.Lines(string(text)) {
			if n, ok := strings.CutPrefix(line, "oom_kill "); ok {
				if v, err := strconv.ParseInt(strings.TrimSpace(n), 10, 64); err == nil {
					return v
				}
			}
		}
	}
	return -1
}
