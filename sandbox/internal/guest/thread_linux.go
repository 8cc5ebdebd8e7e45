package guest

import (
	"fmt"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// thread is one thread of the init that stays as its setup made it: with the session's uid, or at a lower priority. It exists from the
// beginning, because a session that fills the process table leaves no room for a new one, and the runtime ends a process that
// cannot start a thread.
type thread struct{ work chan func() }

// newThread starts a thread and sets it up. It is never the process's first thread, whose state /proc shows as the process's own.
func newThread(setup func() error) (*thread, error) {
	t := &thread{work: make(chan func())}
	ready := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: nothing else may run on it
		if unix.Gettid() == unix.Getpid() {
			other, err := newThread(setup) // on another one, while this one is held
			if err == nil {
				t.work = other.work
			}
			ready <- err
			runtime.UnlockOSThread()
			return
		}
		err := setup()
		ready <- err
		if err != nil {
			return
		}
		for f := range t.work {
			f()
		}
	}()
	return t, <-ready
}

// do runs f on the thread, after whatever runs there already.
func (t *thread) do(f func() error) error {
	done := make(chan error, 1)
	t.work <- func() { done <- f() }
	return <-done
}

// sessionThread has the session's effective uid and gid. Real and saved uid stay the init's, so the session can neither signal nor trace
// it; and it keeps the init's permitted capabilities, for which the kernel does not let the session reschedule it. The probe tries.
func sessionThread(uid, gid int) (*thread, error) {
	return newThread(func() error {
		keep := ^uintptr(0)
		if _, _, e := unix.RawSyscall(unix.SYS_SETRESGID, keep, uintptr(gid), keep); e != 0 {
			return fmt.Errorf("take the session's gid: %w", e)
		}
		if _, _, e := unix.RawSyscall(unix.SYS_SETRESUID, keep, uintptr(uid), keep); e != 0 {
			return fmt.Errorf("take the session's uid: %w", e)
		}
		return nil
	})
}

// lowThread is scheduled as low as the session's processes, which inherit that when they start from it.
func lowThread() (*thread, error) {
	return newThread(func() error {
		if err := unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), sessionNice); err != nil {
			return fmt.Errorf("lower the priority: %w", err)
		}
		return nil
	})
}

// spareThreads are kept for the runtime: for its goroutines that wait in the kernel while a session leaves no room for new threads.
const spareThreads = 6

// keepThreads makes the runtime start n threads now. It never gives one back that was not locked for good.
func keepThreads(n int) {
	var started, ended sync.WaitGroup
	release := make(chan struct{})
	started.Add(n)
	for range n {
		ended.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			started.Done()
			<-release
		})
	}
	started.Wait()
	close(release)
	ended.Wait()
}
