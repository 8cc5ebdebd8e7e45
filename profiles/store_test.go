package profiles_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/profiles"
	"github.com/rein-aharness/harness/queue"
	"github.com/rein-aharness/harness/tests/stack"
)

const engine = "engine-1"

func open(t *testing.T) (*profiles.Store, *pgxpool.Pool) {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), stack.Load(t).DatabaseFrom(t, "queue", queue.Migrate))
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return profiles.NewStore(pool), pool
}

// published is a store that holds the shipped profile, and the selection of a run that is pinned to it.
func published(t *testing.T) (*profiles.Store, *pgxpool.Pool, profiles.Selection) {
	t.Helper()
	store, pool := open(t)
	p := parsed(t, document(t))
	ref, created, err := store.Publish(t.Context(), p, "ada")
	require.NoError(t, err)
	require.True(t, created)
	pins, err := p.Pins()
	require.NoError(t, err)
	return store, pool, profiles.Selection{Ref: ref, Pins: pins, Actor: evidence.ActorAgent, Engine: engine, Run: "run-1"}
}

func ready(digest string, now time.Time) profiles.Readiness {
	return profiles.Readiness{
		Engine: engine, Digest: digest, State: profiles.StateReady, Reason: "all links hold",
		CheckedAt: now, ExpiresAt: now.Add(time.Hour), Links: []profiles.Link{{Name: "image", OK: true}},
	}
}

// A10
func TestAPublishedRevisionIsImmutable(t *testing.T) {
	t.Parallel()
	store, pool, want := published(t)
	ref, created, err := store.Publish(t.Context(), parsed(t, document(t)), "eve")
	require.NoError(t, err)
	require.False(t, created, "the same content is no news")
	require.Equal(t, want.Ref, ref)

	_, _, err = store.Publish(t.Context(), parsed(t, edited(t, "-l, -w", "-w")), "eve")
	require.Equal(t, evidence.CodeProfileImmutable, evidence.CodeOf(err))

	for _, statement := range []string{
		`UPDATE profile_revision SET canonical = 'x'`, `UPDATE profile_revision SET published_by = 'eve'`, `DELETE FROM profile_revision`,
	} {
		_, err := pool.Exec(t.Context(), statement)
		require.ErrorContains(t, err, "immutable")
	}
	_, content, err := store.Get(t.Context(), want.Ref)
	require.NoError(t, err)
	require.NotEmpty(t, content)
}

// A10
func TestOfManyWhoPublishOneRevisionWithOtherContentOneWins(t *testing.T) {
	t.Parallel()
	store, _ := open(t)
	var wins, losses int
	var mu sync.Mutex
	var wait sync.WaitGroup
	for i := range 20 {
		p := parsed(t, edited(t, "Format with gofumpt", fmt.Sprint("Format ", i)))
		wait.Go(func() {
			_, created, err := store.Publish(context.Background(), p, "ada")
			mu.Lock()
			defer mu.Unlock()
			switch {
			case created && err == nil:
				wins++
			case evidence.CodeOf(err) == evidence.CodeProfileImmutable:
				losses++
			}
		})
	}
	wait.Wait()
	require.Equal(t, 1, wins)
	require.Equal(t, 19, losses)
}

// A2, A3, A8, A18
func TestOnlyExactlyWhatWasPinnedIsResolved(t *testing.T) {
	t.Parallel()
	store, pool, want := published(t)
	now := time.Now()
	require.NoError(t, store.SetReadiness(t.Context(), ready(want.Ref.Digest, now)))

	got, err := store.Resolve(t.Context(), want, now)
	require.NoError(t, err)
	require.Equal(t, want.Ref, got.Ref)
	require.Equal(t, want.Pins, got.Pins)
	require.Equal(t, profiles.StateReady, got.State)
	require.False(t, got.Proof)
	content, err := got.Profile.Canonical()
	require.NoError(t, err)
	require.Equal(t, content, got.Canonical)

	other := "sha256:" + fmt.Sprintf("%064d", 1)
	for name, c := range map[string]struct {
		change func(*profiles.Selection)
		code   evidence.Code
	}{
		"unknown name":        {func(s *profiles.Selection) { s.Ref.Name = "other" }, evidence.CodeProfileUnknown},
		"unknown version":     {func(s *profiles.Selection) { s.Ref.Version = "1.0.1" }, evidence.CodeProfileUnknown},
		"no reference":        {func(s *profiles.Selection) { s.Ref = profiles.Ref{} }, evidence.CodeProfileUnknown},
		"wrong digest":        {func(s *profiles.Selection) { s.Ref.Digest = other }, evidence.CodeProfileDigestMismatch},
		"no digest":           {func(s *profiles.Selection) { s.Ref.Digest = "" }, evidence.CodeProfileDigestMismatch},
		"pin of profile":      {func(s *profiles.Selection) { s.Pins.Profile = other }, evidence.CodePinMismatch},
		"pin of rein":         {func(s *profiles.Selection) { s.Pins.Rein = other }, evidence.CodePinMismatch},
		"pin of model":        {func(s *profiles.Selection) { s.Pins.Model = other }, evidence.CodePinMismatch},
		"pin of tools":        {func(s *profiles.Selection) { s.Pins.Tools = other }, evidence.CodePinMismatch},
		"pin of sandbox":      {func(s *profiles.Selection) { s.Pins.Sandbox = other }, evidence.CodePinMismatch},
		"pin of credentials":  {func(s *profiles.Selection) { s.Pins.Credentials = "" }, evidence.CodePinMismatch},
		"no actor":            {func(s *profiles.Selection) { s.Actor = "" }, evidence.CodeActorInvalid},
		"worker as the actor": {func(s *profiles.Selection) { s.Actor = "worker-1" }, evidence.CodeActorInvalid},
		"other engine":        {func(s *profiles.Selection) { s.Engine = "engine-2" }, evidence.CodeProfileUnverified},
		"no engine":           {func(s *profiles.Selection) { s.Engine = "" }, evidence.CodeProfileIncompatible},
	} {
		changed := want
		c.change(&changed)
		_, err := store.Resolve(t.Context(), changed, now)
		require.Equal(t, c.code, evidence.CodeOf(err), name)
	}

	// Someone with the database's own rights replaces what was published.
	for name, c := range map[string]struct {
		statement string
		code      evidence.Code
	}{
		"other content":  {`UPDATE profile_revision SET canonical = convert_to(replace(convert_from(canonical, 'UTF8'), '"-w"', '"-x"'), 'UTF8')`, evidence.CodeProfileDigestMismatch},
		"no content":     {`UPDATE profile_revision SET canonical = '{}'`, evidence.CodeProfileIncompatible},
		"of the future":  {`UPDATE profile_revision SET canonical = convert_to('{"new_section":{},' || substr(convert_from(canonical, 'UTF8'), 2), 'UTF8')`, evidence.CodeProfileIncompatible},
		"other revision": {`UPDATE profile_revision SET canonical = convert_to(replace(convert_from(canonical, 'UTF8'), '"version":"1.0.0"', '"version":"1.0.9"'), 'UTF8')`, evidence.CodeProfileDigestMismatch},
	} {
		_, err := pool.Exec(t.Context(), `ALTER TABLE profile_revision DISABLE TRIGGER USER`)
		require.NoError(t, err)
		tag, err := pool.Exec(t.Context(), c.statement)
		require.NoError(t, err)
		require.EqualValues(t, 1, tag.RowsAffected())
		_, err = store.Resolve(t.Context(), want, now)
		require.Equal(t, c.code, evidence.CodeOf(err), name)
		_, err = pool.Exec(t.Context(), `UPDATE profile_revision SET canonical = $1`, content)
		require.NoError(t, err)
	}
	_, err = store.Resolve(t.Context(), want, now)
	require.NoError(t, err)
}

// A4, A6, A8
func TestListedIsNotReadyAndAnOperatorsBlockOutranksReadiness(t *testing.T) {
	t.Parallel()
	store, _, want := published(t)
	now := time.Now()
	ctx, digest := t.Context(), want.Ref.Digest
	refused := func(code evidence.Code) {
		t.Helper()
		_, err := store.Resolve(ctx, want, now)
		require.Equal(t, code, evidence.CodeOf(err))
		if code == evidence.CodeProfileBlocked || code == evidence.CodeProfileDisabled {
			proof := want
			proof.Proof = true
			_, err = store.Resolve(ctx, proof, now)
			require.Equal(t, code, evidence.CodeOf(err), "a proof is refused as well")
		}
	}
	refused(evidence.CodeProfileUnverified)

	record := ready(digest, now)
	record.State, record.Reason, record.Links = profiles.StateUnverified, "the image is missing", []profiles.Link{{Name: "image"}}
	require.NoError(t, store.SetReadiness(ctx, record))
	refused(evidence.CodeProfileUnverified)

	require.NoError(t, store.SetReadiness(ctx, ready(digest, now)))
	_, err := store.Resolve(ctx, want, now)
	require.NoError(t, err)

	require.NoError(t, store.Block(ctx, digest, "leaks", "ada"))
	refused(evidence.CodeProfileBlocked)
	require.NoError(t, store.SetReadiness(ctx, ready(digest, now)))
	refused(evidence.CodeProfileBlocked)
	require.NoError(t, store.Disable(ctx, digest, "replaced", "ada"))
	refused(evidence.CodeProfileDisabled)
	require.NoError(t, store.Enable(ctx, digest, "mended", "bob"))
	_, err = store.Resolve(ctx, want, now)
	require.NoError(t, err)

	record = ready(digest, now)
	record.State, record.Reason, record.Links = profiles.StateBlocked, "the probe got out", []profiles.Link{{Name: "isolation"}}
	require.NoError(t, store.SetReadiness(ctx, record))
	refused(evidence.CodeProfileBlocked)
	now = now.Add(2 * time.Hour)
	refused(evidence.CodeProfileBlocked)

	marks, err := store.Marks(ctx, digest)
	require.NoError(t, err)
	require.Len(t, marks, 3, "what was said stays on record")
	require.Equal(t, "bob", marks[0].Operator)
}

// A5: unverified runs only as a labelled proof, and only so many.
func TestAnUnverifiedProfileRunsOnlyAsACountedProof(t *testing.T) {
	t.Parallel()
	store, _, want := published(t)
	now := time.Now()
	want.Proof = true
	for i := range 5 {
		want.Run = fmt.Sprint("run-", i)
		for range 2 { // to resolve a run again is no further proof
			got, err := store.Resolve(t.Context(), want, now)
			require.NoError(t, err)
			require.True(t, got.Proof)
			require.Equal(t, profiles.StateUnverified, got.State)
		}
	}
	want.Run = "run-5"
	_, err := store.Resolve(t.Context(), want, now)
	require.Equal(t, evidence.CodeProfileUnverified, evidence.CodeOf(err))
	want.Run = "run-4"
	_, err = store.Resolve(t.Context(), want, now)
	require.NoError(t, err)
	want.Run, want.Engine = "run-6", "engine-2"
	_, err = store.Resolve(t.Context(), want, now)
	require.NoError(t, err, "another engine counts for itself")

	require.NoError(t, store.SetReadiness(t.Context(), ready(want.Ref.Digest, now)))
	want.Engine = engine
	got, err := store.Resolve(t.Context(), want, now)
	require.NoError(t, err)
	require.True(t, got.Proof, "the label stays")
}

// A5, CASES 36
func TestRacingProofsStayWithinTheirCount(t *testing.T) {
	t.Parallel()
	store, _, want := published(t)
	want.Proof = true
	var allowed int
	var mu sync.Mutex
	var wait sync.WaitGroup
	for i := range 30 {
		mine := want
		mine.Run = fmt.Sprint("run-", i)
		wait.Go(func() {
			if _, err := store.Resolve(context.Background(), mine, time.Now()); err == nil {
				mu.Lock()
				allowed++
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	require.Equal(t, 5, allowed)
}

// A7
func TestReadinessEnds(t *testing.T) {
	t.Parallel()
	store, _, want := published(t)
	now := time.Now()
	require.NoError(t, store.SetReadiness(t.Context(), ready(want.Ref.Digest, now)))
	_, err := store.Resolve(t.Context(), want, now.Add(time.Hour-time.Second))
	require.NoError(t, err)
	_, err = store.Resolve(t.Context(), want, now.Add(time.Hour))
	require.Equal(t, evidence.CodeProfileNotReady, evidence.CodeOf(err), "the interval is half open")
	older := ready(want.Ref.Digest, now.Add(-time.Minute))
	older.State, older.Reason = profiles.StateUnverified, "an older check"
	require.NoError(t, store.SetReadiness(t.Context(), older))
	_, err = store.Resolve(t.Context(), want, now)
	require.NoError(t, err, "a check that ended late does not replace a newer one")
}

// A6, A7: ready is a claim that has to be whole.
func TestAnIncompleteReadinessIsRefused(t *testing.T) {
	t.Parallel()
	store, _, want := published(t)
	now := time.Now()
	for name, change := range map[string]func(*profiles.Readiness){
		"no links":      func(r *profiles.Readiness) { r.Links = nil },
		"a broken link": func(r *profiles.Readiness) { r.Links = append(r.Links, profiles.Link{Name: "vault"}) },
		"no end":        func(r *profiles.Readiness) { r.ExpiresAt = time.Time{} },
		"too long":      func(r *profiles.Readiness) { r.ExpiresAt = now.Add(profiles.MaxReadiness + time.Second) },
		"no engine":     func(r *profiles.Readiness) { r.Engine = "" },
		"no reason":     func(r *profiles.Readiness) { r.Reason = " " },
		"unknown state": func(r *profiles.Readiness) { r.State = "fine" },
		"disabled":      func(r *profiles.Readiness) { r.State = profiles.StateDisabled },
		"no such digest": func(r *profiles.Readiness) {
			r.Digest = "sha256:" + fmt.Sprintf("%064d", 7)
		},
	} {
		record := ready(want.Ref.Digest, now)
		change(&record)
		require.Error(t, store.SetReadiness(t.Context(), record), name)
	}
	require.Error(t, store.Block(t.Context(), want.Ref.Digest, "", "ada"), "no reason")
	require.Error(t, store.Block(t.Context(), want.Ref.Digest, "x", ""), "no operator")
	require.Error(t, store.Block(t.Context(), want.Ref.Digest, "x\x1b[2J", "ada"), "terminal escape")
	_, err := store.Resolve(t.Context(), want, now)
	require.Equal(t, evidence.CodeProfileUnverified, evidence.CodeOf(err))
}

// B4: a database that does not answer decides nothing.
func TestWithoutTheDatabaseNothingIsResolved(t *testing.T) {
	t.Parallel()
	store, pool, want := published(t)
	require.NoError(t, store.SetReadiness(t.Context(), ready(want.Ref.Digest, time.Now())))
	pool.Close()
	_, err := store.Resolve(t.Context(), want, time.Now())
	require.Error(t, err)
	require.Equal(t, evidence.CodeUnclassified, evidence.CodeOf(err))
}

func TestListShowsMarksAndReadinessOfEveryEngine(t *testing.T) {
	t.Parallel()
	store, _, want := published(t)
	now := time.Now().UTC().Truncate(time.Microsecond)
	second := ready(want.Ref.Digest, now)
	second.Engine = "engine-0"
	require.NoError(t, store.SetReadiness(t.Context(), ready(want.Ref.Digest, now)))
	require.NoError(t, store.SetReadiness(t.Context(), second))
	require.NoError(t, store.Block(t.Context(), want.Ref.Digest, "leaks", "ada"))
	list, err := store.List(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, want.Ref, list[0].Ref)
	require.Equal(t, "blocked", list[0].Mark.Verdict)
	require.Len(t, list[0].Readiness, 2)
	require.Equal(t, "engine-0", list[0].Readiness[0].Engine)
	found, err := store.Find(t.Context(), "gofumpt", "1.0.0")
	require.NoError(t, err)
	require.Equal(t, want.Ref, found)
	_, err = store.Find(t.Context(), "gofumpt", "9.0.0")
	require.Equal(t, evidence.CodeProfileUnknown, evidence.CodeOf(err))
}
