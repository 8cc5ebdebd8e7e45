package main

import (
	"runtime"
	"runtime/debug"

	"github.com/rein-aharness/harness"
)

type versionCmd struct{}

func (versionCmd) Help() string {
	return `Prints the version of the harness, of Go, and the revision that it was built from, where the build knows it.
harness --version is the same.

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
