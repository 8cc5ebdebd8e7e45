package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// worker is the worker process of the demonstration. Its log is shown when it fails.
type worker struct {
	command *exec.Cmd
	log     string
	ended   chan error
}

func (d *demo) start(ctx context.Context) (*worker, error) {
	w := &worker{command: d.command(ctx, "worker"), log: filepath.Join(d.dir, "worker.log"), ended: make(chan error, 1)}
	log, err := os.Create(w.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	w.command.Stdout, w.command.Stderr = log, log
	w.command.Cancel = func() error { return w.command.Process.Signal(syscall.SIGTERM) }
	fmt.Println("   $ harness worker &")
	if err := w.command.Start(); err != nil {
		return nil, err
	}
	go func() { w.ended <- w.command.Wait() }()
	return w, nil
}

// stop drains the worker.
func (w *worker) stop() error {
	if err := w.command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case err := <-w.ended:
		if err != nil {
			log, readErr := os.ReadFile(w.log)
			return errors.Join(fmt.Errorf("the worker ended with an error: %w\n%s", err, log), readErr)
		}
		return nil
	case <-time.After(time.Minute):
		return errors.Join(errors.New("the worker did not drain"), w.command.Process.Kill())
	}
}
