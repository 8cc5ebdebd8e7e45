package main

import (
	"context"
	"errors"

	"github.com/rein-aharness/harness"
)

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
	config, err := a.config()
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
	return as(codeParts, errors.New("a part is not as it should be"))
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
