package harness

import (
	"context"
	"errors"
	"fmt"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/profiles"
	"github.com/rein-aharness/harness/queue"
)

// Check is one thing that the doctor looked at.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Mend   string `json:"mend,omitempty"` // what to do, when it is not OK
}

// Doctor looks at every part of the deployment, each by itself, and says how to mend what is broken. A part that another one needs
// and that is not there is said once.
func Doctor(ctx context.Context, config Config, options Options) []Check {
	var checks []Check
	add := func(name, mend string, check func() (string, error)) bool {
		detail, err := check()
		c := Check{Name: name, OK: err == nil, Detail: detail}
		if err != nil {
			c.Detail, c.Mend = evidence.Clean(err.Error(), 1024), mend
		}
		checks = append(checks, c)
		return c.OK
	}
	h := &Harness{config: config}
	h.prepare(options)
	defer func() {
		if err := h.Close(ctx); err != nil {
			h.log.Warn("close", "error", err)
		}
	}()
	if add("database", "check database.url_file and that Postgres runs, then run `harness migrate`", func() (string, error) {
		return "connected, schema current", h.openStore(ctx)
	}) {
		checks = append(checks, h.examineQueue(ctx)...)
	}
	vault := add("vault", "check vault.address, its CA and the worker's credential files", func() (string, error) {
		return config.Vault.Address, h.openVault(ctx)
	})
	if vault {
		add("signing key", "give the token role the signing policy, and store an Ed25519 key at signing.path", func() (string, error) {
			return config.Signing.Path, h.vault.CheckSigningRoute(ctx, h.owner(), config.Signing.route())
		})
	}
	add("trust file", "write signing.trust_file: the public keys that verify evidence, with their validity", func() (string, error) {
		_, err := h.Trust()
		return config.Signing.TrustFile, err
	})
	repos := add("git", "check git.ca_file, git.known_hosts_file and that git.cache_dir is writable", func() (string, error) {
		return config.Git.CacheDir, h.openRepos(ctx)
	})
	add("engine", "check engine.host, that the Docker engine runs, and that engine.init_binary is static, as `make build` makes it", func() (string, error) {
		return config.Engine.Host, h.openVenue(ctx)
	})
	if repos { // it makes the folder whose disk is looked at
		add("room", "free memory or disk, or lower worker.min_free_memory_bytes and worker.min_free_disk_bytes", func() (string, error) {
			if ok, why := h.room(); !ok {
				return "", errors.New(why)
			}
			return "enough memory and disk for a run", nil
		})
	}
	if h.profiles != nil {
		checks = append(checks, h.examineProfiles(ctx)...)
	}
	return checks
}

// examineQueue looks at what the database says about the deployment.
func (h *Harness) examineQueue(ctx context.Context) []Check {
	control, err := h.store.Control(ctx)
	if err != nil {
		return []Check{{Name: "queue", Detail: evidence.Clean(err.Error(), 1024), Mend: "see the database's log"}}
	}
	identity := Check{Name: "database identity", OK: !control.Replaced(), Detail: "the database is the one it was"}
	if !identity.OK {
		identity.Detail = "the database was restored or failed over; claims are stopped"
		identity.Mend = "stop workers of the old database, then run `harness doctor --adopt`"
	}
	paused := Check{Name: "pause", OK: !control.Paused, Detail: "claims and publications are open"}
	if control.Paused {
		paused.Detail = fmt.Sprintf("paused by %s: %s", control.PausedBy, control.PausedReason)
		paused.Mend = "run `harness resume` when the reason is gone"
	}
	return append([]Check{identity, paused}, h.examineWork(ctx)...)
}

// examineWork looks for workers, and for what is stuck.
func (h *Harness) examineWork(ctx context.Context) []Check {
	problem := func(name string, err error) Check {
		return Check{Name: name, Detail: evidence.Clean(err.Error(), 1024), Mend: "see the database's log"}
	}
	var checks []Check
	processes, err := h.store.Processes(ctx)
	if err != nil {
		return append(checks, problem("workers", err))
	}
	alive := 0
	for _, p := range processes {
		if p.Alive {
			alive++
		}
	}
	workers := Check{Name: "workers", OK: alive > 0, Detail: fmt.Sprintf("%d alive", alive)}
	if !workers.OK {
		workers.Mend = "start `harness worker` on a machine with the engine"
	}
	checks = append(checks, workers)
	stuck, err := h.store.Runs(ctx, queue.Filter{Stuck: true, Limit: 100})
	if err != nil {
		return append(checks, problem("stuck runs", err))
	}
	runs := Check{Name: "stuck runs", OK: len(stuck) == 0, Detail: fmt.Sprintf("%d stuck", len(stuck))}
	if !runs.OK {
		runs.Mend = "see `harness runs list --stuck`; `harness reconcile RUN` asks the remote again, `harness runs settle RUN` records your decision"
	}
	checks = append(checks, runs)
	overdue, err := h.store.OverdueDeliveries(ctx)
	if err != nil {
		return append(checks, problem("deliveries", err))
	}
	deliveries := Check{Name: "deliveries", OK: overdue == 0, Detail: fmt.Sprintf("%d required ones have failed three times or more", overdue)}
	if !deliveries.OK {
		deliveries.Mend = "see `harness deliveries list --state pending`; mend the endpoint, then `harness deliveries reconcile`"
	}
	checks = append(checks, deliveries)
	failed, err := h.store.FailedChores(ctx)
	if err != nil {
		return append(checks, problem("chores", err))
	}
	chores := Check{Name: "chores", OK: len(failed) == 0, Detail: "fences, tokens and logs are looked after"}
	if !chores.OK {
		chores.Detail, chores.Mend = evidence.Clean(fmt.Sprint(failed), 1024), "mend what the error names; the chore is tried again by itself"
	}
	return append(checks, chores)
}

// examineProfiles says how each published profile stands on this engine.
func (h *Harness) examineProfiles(ctx context.Context) []Check {
	published, err := h.profiles.List(ctx)
	if err != nil {
		return []Check{{Name: "profiles", Detail: evidence.Clean(err.Error(), 1024), Mend: "see the database's log"}}
	}
	var checks []Check
	for _, p := range published {
		state, reason, err := h.profiles.Standing(ctx, h.config.Engine.Name, p.Ref.Digest, h.store.Now())
		c := Check{Name: "profile " + p.Ref.Revision(), OK: err == nil, Detail: string(state) + ": " + reason}
		switch {
		case err != nil:
			c.Detail, c.Mend = evidence.Clean(err.Error(), 1024), "see the database's log"
		case state == profiles.StateUnverified:
			c.OK, c.Mend = false, "run `harness profiles check "+p.Ref.Revision()+" --repository URL`, or `harness profiles disable` if it is not to be used any more"
		case state != profiles.StateReady && state != profiles.StateDisabled: // a disabled one is out of use, as somebody wants it
			c.OK, c.Mend = false, "an operator has set this; `harness profiles enable` takes it back"
		}
		checks = append(checks, c)
	}
	return checks
}
