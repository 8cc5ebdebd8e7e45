package harness

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"time"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/internal/failpoint"
	"github.com/rein-aharness/harness/profiles"
	"github.com/rein-aharness/harness/queue"
	"github.com/rein-aharness/harness/rein/credential"
	"github.com/rein-aharness/harness/repotx"
	"github.com/rein-aharness/harness/sandbox"
)

// Harness holds what one process needs to emit, execute, reconcile and verify runs. It is safe for concurrent use.
type Harness struct {
	config   Config
	log      *slog.Logger
	watch    func(Progress)
	nonce    string
	store    *queue.Store
	profiles *profiles.Store
	vault    *credential.Client // nil unless opened with it
	repos    *repotx.Store      // nil unless opened with Vault
	venue    *sandbox.Venue     // nil unless opened with the engine
}

// Options say which parts a process needs, and who watches.
type Options struct {
	// Vault connects to Vault and prepares access to git remotes: for whatever emits, executes, reconciles or verifies remotely.
	Vault bool
	// Engine connects to the Docker engine: for whatever executes or checks readiness.
	Engine bool
	// Logger is where what no caller is told goes. Default: discarded.
	Logger *slog.Logger
	// Watch is told of each stage as it begins and ends, from several goroutines. Default: nobody.
	Watch func(Progress)
}

// Progress is one step of a run as it happens.
type Progress struct {
	Run   string
	Stage evidence.Stage
	Done  bool  // the stage has ended; otherwise it begins
	Err   error // of an ended stage
	At    time.Time
}

// Open connects to the database, and to the other parts as the options say. The error is a *PartError.
func Open(ctx context.Context, config Config, options Options) (*Harness, error) {
	h := &Harness{config: config}
	h.prepare(options)
	for _, part := range []struct {
		needed bool
		part   Part
		open   func(context.Context) error
	}{
		{true, PartDatabase, h.openStore},
		{options.Vault, PartVault, h.openVault},
		{options.Vault, PartGit, h.openRepos},
		{options.Engine, PartEngine, h.openVenue},
	} {
		if !part.needed {
			continue
		}
		if err := part.open(ctx); err != nil {
			return nil, errors.Join(&PartError{part.part, err}, h.Close(ctx))
		}
	}
	return h, nil
}

// prepare fills in what options leave out, and gives the process its nonce.
func (h *Harness) prepare(options Options) {
	h.log, h.watch = options.Logger, options.Watch
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	if h.watch == nil {
		h.watch = func(Progress) {}
	}
	var nonce [8]byte
	_, _ = rand.Read(nonce[:]) // never fails: crypto/rand ends the process instead
	h.nonce = hex.EncodeToString(nonce[:])
}

// Migrate brings the database's schema up to this binary's. It changes nothing that is current. The error is a *PartError.
func Migrate(ctx context.Context, config Config) error {
	url, err := config.Database.URL()
	if err == nil {
		err = queue.Migrate(ctx, url)
	}
	if err != nil {
		return &PartError{PartDatabase, err}
	}
	return nil
}

func (h *Harness) openStore(ctx context.Context) error {
	url, err := h.config.Database.URL()
	if err != nil {
		return err
	}
	config := h.config.queue(url)
	config.Logger = h.log
	if h.store, err = queue.Open(ctx, config); err != nil {
		return err
	}
	h.profiles = profiles.NewStore(h.store.Pool())
	return nil
}

func (h *Harness) openVault(ctx context.Context) (err error) {
	h.vault, err = credential.Open(ctx, h.config.Vault)
	return err
}

func (h *Harness) openRepos(ctx context.Context) error {
	config, err := h.config.Git.repos()
	if err != nil {
		return err
	}
	h.repos, err = repotx.Open(ctx, config)
	return err
}

func (h *Harness) openVenue(ctx context.Context) (err error) {
	h.venue, err = sandbox.Open(ctx, h.config.Engine.venue())
	return err
}

// Close lets all connections go.
func (h *Harness) Close(ctx context.Context) error {
	var errs []error
	if h.venue != nil {
		errs = append(errs, h.venue.Close())
	}
	if h.vault != nil {
		errs = append(errs, h.vault.Close(context.WithoutCancel(ctx)))
	}
	if h.store != nil {
		h.store.Close()
	}
	return errors.Join(errs...)
}

// Store is the queue.
func (h *Harness) Store() *queue.Store { return h.store }

// Profiles are the published profiles and their readiness.
func (h *Harness) Profiles() *profiles.Store { return h.profiles }

// Config is the configuration the harness was opened with.
func (h *Harness) Config() Config { return h.config }

// Execute takes a claimed run through the chain and closes it, and keeps its lease meanwhile. Whatever happens, it leaves the run
// closed, given back, or to a reconciler; the error is for the log. It implements queue.Handler. (A1, A14)
func (h *Harness) Execute(ctx context.Context, lease *queue.Lease) error {
	ctx, stop := lease.Keep(ctx)
	defer stop()
	x := &execution{h: h, lease: lease, run: lease.Run(), log: h.log.With("run", lease.Run().ID, "epoch", lease.Epoch())}
	return x.finish(ctx, x.chain(ctx))
}

// execution is one run on its way through the chain, in one epoch.
type execution struct {
	h     *Harness
	lease *queue.Lease
	run   queue.Run
	log   *slog.Logger

	contract  queue.Contract
	profile   *profiles.Profile
	started   bool
	publish   *credential.Session // holds the publish credential until the run is settled
	remote    *repotx.Remote
	baseline  *repotx.Baseline
	allowance repotx.Allowance
	waived    bool         // the remote has no fence and the definition accepts that
	fence     repotx.Fence // zero when fencing is waived
	fenced    bool         // a fence may exist on the remote
	settled   *repotx.Settlement
}

// chain is the chain. Each stage returns at the first refusal or failure; teardown comes after whatever began, and before
// acceptance, which needs all of it.
func (x *execution) chain(ctx context.Context) error {
	if err := x.stage(ctx, evidence.StageResolve, x.resolve); err != nil {
		return err
	}
	if err := x.stage(ctx, evidence.StageAdmit, x.admit); err != nil {
		return err
	}
	if err := x.stage(ctx, evidence.StagePreflight, x.preflight); err != nil {
		return err
	}
	venue := &venue{x: x}
	err := venue.work(ctx) // sandbox, session, capture
	err = errors.Join(err, x.stage(ctx, evidence.StageTeardown, venue.teardown))
	if err == nil {
		err = x.stage(ctx, evidence.StageAccept, func(ctx context.Context) error { return x.accept(ctx, *venue.changes) })
	}
	return errors.Join(err, venue.close())
}

// stage runs one stage, tells whoever watches, here and in the database, and gives an error that nobody classified the stage it
// arose in. A teardown begins also when nothing can be written any more.
func (x *execution) stage(ctx context.Context, stage evidence.Stage, do func(context.Context) error) error {
	x.h.watch(Progress{Run: x.run.ID, Stage: stage, At: x.h.store.Now()})
	var err error
	if stage != evidence.StageTeardown {
		err = x.lease.Stage(ctx, stage)
	}
	if err == nil {
		err = failpoint.Around(string(stage), func() error { return do(ctx) })
	}
	err = x.classify(ctx, stage, err)
	x.h.watch(Progress{Run: x.run.ID, Stage: stage, Done: true, Err: err, At: x.h.store.Now()})
	return err
}

// classify makes a *evidence.Failure of every error. What the lease decided goes first, since a stage that is cancelled under a lost
// lease fails in its own words, and in a process that was stopped it may fail before the loss was noticed: its wire is gone too.
func (x *execution) classify(ctx context.Context, stage evidence.Stage, err error) error {
	if err == nil {
		return nil
	}
	cause := errors.Join(err, context.Cause(ctx))
	var f *evidence.Failure
	switch {
	case errors.Is(cause, queue.ErrCancelRequested):
		return evidence.Fail(stage, evidence.CodeCancelled, "", err)
	case errors.Is(cause, queue.ErrLeaseLost), !x.lease.Held():
		return evidence.Fail(stage, evidence.CodeLeaseLost, "", err)
	case ctx.Err() != nil:
		return evidence.Fail(stage, evidence.CodeWorkerLost, "drain", err) // the worker was asked to stop, and its time is over
	case errors.As(err, &f):
		return err
	case errors.Is(err, queue.ErrPaused):
		return evidence.Fail(stage, evidence.CodePaused, "", err)
	default:
		return evidence.Fail(stage, evidence.CodeUnclassified, "", err)
	}
}
