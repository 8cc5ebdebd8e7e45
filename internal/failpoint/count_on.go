//go:build failpoint

package failpoint

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"
)

// countGoroutines writes down every second how many goroutines this process has, beside the history: nothing outside of a process can
// count them. It ends with the process. Whoever reads the file never finds it half written.
func countGoroutines(history string) {
	name := fmt.Sprintf("%s.%d.goroutines", history, os.Getpid())
	for {
		err := os.WriteFile(name+".new", []byte(strconv.Itoa(runtime.NumGoroutine())), 0o600)
		if err == nil {
			err = os.Rename(name+".new", name)
		}
		if err != nil {
			panic(fmt.Sprintf("%s: %v", HistoryEnvironment, err))
		}
		time.Sleep(time.Second)
	}
}
