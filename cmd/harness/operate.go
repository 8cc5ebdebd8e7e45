package main

import (
	"context"
	"runtime"
	"runtime/debug"

	"github.com/rein-aharness/harness"
	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/queue"
)

// stuck lists the ids of all runs that need somebody.
func stuck(ctx context.Context, h *harness.Harness) ([]string, error) {
	runs, err := h.Store().Runs(ctx, queue.Filter{Stuck: true, Limit: 1000})
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, r := range runs {
		ids = append(ids, r.ID)
	}
	return ids, nil
}

type pauseCmd struct {
	operatorFlag
	Reason string `required:"" help:"Why, on one line." placeholder:"TEXT"`
}

func (pauseCmd) Help() string {
	return `Stops all claims and publications, of every worker, until resume. When it returns, none is under way that had not been decided
before. Runs that work go on up to their acceptance and wait there; settling and delivering go on.

Example:

    harness pause --reason "the git server is moved" --operator ada`
}

func (c pauseCmd) Run(ctx context.Context, a *app) error {
	operator, err := c.name(a.streams)
	if err != nil {
		return err
	}
	return a.control(ctx, func(s *queue.Store) error { return s.Pause(ctx, operator, c.Reason) })
}

type resumeCmd struct{}

func (resumeCmd) Help() string {
	return `Lets claims and publications go on.

Example:

    harness resume`
}

func (resumeCmd) Run(ctx context.Context, a *app) error {
	return a.control(ctx, func(s *queue.Store) error { return s.Resume(ctx) })
}

// controlView is the JSON of pause and resume.
type controlView struct {
	Paused bool    `json:"paused"`
	By     string  `json:"by"`
	Reason string  `json:"reason"`
	At     *string `json:"at"`
}

// control changes what holds for all workers, and prints it.
func (a *app) control(ctx context.Context, change func(*queue.Store) error) error {
	return a.with(ctx, harness.Options{}, func(h *harness.Harness) error {
		if err := change(h.Store()); err != nil {
			return err
		}
		control, err := h.Store().Control(ctx)
		if err != nil {
			return err
		}
		if a.JSON {
			return a.printJSON(controlView{Paused: control.Paused, By: control.PausedBy, Reason: control.PausedReason, At: stamp(control.PausedAt)})
		}
		if control.Paused {
			return a.printf("paused by %s: %s\n", clean(control.PausedBy, maxCell), clean(control.PausedReason, maxCell))
		}
		return a.printf("claims and publications are open\n")
	})
}

type doctorCmd struct {
	operatorFlag
	Adopt bool `help:"Accept that the database was restored or has failed over."`
}

func (doctorCmd) Help() string {
	return `Looks at every part by itself, the database, Vault, the signing key, the trust file, git, the engine, the room on this machine, workers,
stuck runs and profiles, and says for each that is broken how to mend it. It exits with 0 only when nothing is broken, else with 9.

A database that was restored or has failed over may have lost leases that were given out, so all claims in it stop. With --adopt,
and after no worker of the old database runs any more, every epoch is raised above what can have been issued, and every run that
is not over is settled from its remote.

Examples:

    harness doctor
    harness doctor --adopt --operator ada`
}

// doctorView is the JSON of doctor.
type doctorView struct {
	OK      bool            `json:"ok"`
	Adopted []string        `json:"adopted"` // runs that are settled from their remotes after an adoption
	Checks  []harness.Check `json:"checks"`
}

func (c doctorCmd) Run(ctx context.Context, a *app) error {
	view := doctorView{OK: true, Adopted: []string{}}
	if c.Adopt {
		operator, err := c.name(a.streams)
		if err != nil {
			return err
		}
		err = a.with(ctx, harness.Options{}, func(h *harness.Harness) error {
			runs, err := h.Store().Adopt(ctx, operator)
			for _, r := range runs {
				view.Adopted = append(view.Adopted, r.ID)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	config, err := harness.ReadConfig(a.Config)
	if err != nil {
		return err
	}
	view.Checks = harness.Doctor(ctx, config, harness.Options{})
	for _, check := range view.Checks {
		view.OK = view.OK && check.OK
	}
	if a.JSON {
		err = a.printJSON(view)
	} else {
		err = a.printDoctor(c.Adopt, view)
	}
	if err != nil || view.OK {
		return err
	}
	return endWith(evidence.ExitUnavailable)
}

func (a *app) printDoctor(adopted bool, view doctorView) error {
	t := newTable(a.out)
	if adopted {
		t.row("the database is adopted; runs to be settled from their remotes:", "")
		for _, id := range view.Adopted {
			t.row("  " + id)
		}
	}
	for _, c := range view.Checks {
		if c.OK {
			t.row("ok", c.Name, c.Detail)
			continue
		}
		t.row("FAIL", c.Name, c.Detail)
		t.row("", "", "mend: "+c.Mend)
	}
	return t.flush()
}

type versionCmd struct{}

func (versionCmd) Help() string {
	return `Prints the version of the harness, of Go, and the revision that it was built from, where the build knows it.

Example:

    harness version --json`
}

// versionView is the JSON of version.
type versionView struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Revision string `json:"revision"` // of the source; empty when the build does not know it
	Modified bool   `json:"modified"` // the source differed from that revision
}

func (versionCmd) Run(a *app) error {
	v := versionView{Version: harness.Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				v.Revision = s.Value
			case "vcs.modified":
				v.Modified = s.Value == "true"
			}
		}
	}
	if a.JSON {
		return a.printJSON(v)
	}
	t := newTable(a.out)
	t.row("harness", v.Version)
	t.row("go", v.Go+" "+v.Platform)
	if v.Revision != "" {
		t.row("revision", v.Revision)
	}
	return t.flush()
}
