package queue_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/internal/canonical"
	"github.com/rein-aharness/harness/queue"
)

// A15
func TestHundredEmissionsOfOneTriggerKeyGiveOneRun(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	r := request("many")
	var created atomic.Int32
	var ids sync.Map
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			run, fresh, err := s.Emit(t.Context(), r, queue.Emission{Pin: pins(r)})
			if err != nil {
				t.Error(err)
				return
			}
			ids.Store(run.ID, true)
			if fresh {
				created.Add(1)
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 1, created.Load())
	count := 0
	ids.Range(func(any, any) bool { count++; return true })
	require.Equal(t, 1, count)
	require.Equal(t, 1, scalar[int](t, s, `SELECT count(*)::int FROM ops_run`))
	require.Equal(t, 1, scalar[int](t, s, `SELECT count(*)::int FROM river_job`))
}

// A15
func TestKnownTriggerKeyResolvesNothingAgain(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	r := request("once")
	run := emit(t, s, r)
	again, created, err := s.Emit(t.Context(), r, queue.Emission{Pin: func(context.Context) (queue.Pins, error) {
		t.Error("the pins of a known trigger key were looked up")
		return queue.Pins{}, errors.New("no")
	}})
	require.NoError(t, err)
	require.False(t, created)
	require.Equal(t, run.ID, again.ID)
}

// A9, A12, A15, A46, B30
func TestEmissionRefuses(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	emit(t, s, request("known"))
	for name, c := range map[string]struct {
		change func(*queue.Request)
		pin    func(context.Context) (queue.Pins, error)
		code   evidence.Code
	}{
		"another request under the trigger key": {
			change: func(r *queue.Request) { r.TriggerKey = "known"; r.Task = "other" }, code: evidence.CodeTriggerConflict,
		},
		"an operation key that means another change": {
			change: func(r *queue.Request) { r.OperationKey = "known" }, code: evidence.CodeOperationConflict,
		},
		"no profile":           {change: func(r *queue.Request) { r.Profile = "" }, code: evidence.CodeProfileMalformed},
		"a profile's latest":   {change: func(r *queue.Request) { r.Profile = "codemod@latest" }, code: evidence.CodeProfileMalformed},
		"a ref of the harness": {change: func(r *queue.Request) { r.TargetRef = "refs/harness/fence/x" }, code: evidence.CodeRefNotGranted},
		"a credential in the URL": {
			change: func(r *queue.Request) { r.Repository = "https://u:p@git.example/r" }, code: evidence.CodeValueInContract,
		},
		"an attended run without a queue": {
			change: func(r *queue.Request) { r.Attended, r.Operator = true, "ada" }, code: evidence.CodeContractInvalid,
		},
		"a successor of nothing": {
			change: func(r *queue.Request) { r.Supersedes = "00000000-none" }, code: evidence.CodeSuccessorNotAllowed,
		},
		"a base that does not exist": {pin: func(context.Context) (queue.Pins, error) {
			return queue.Pins{}, evidence.Fail(evidence.StageEmit, evidence.CodeBaselineUnresolved, "refs/heads/main", nil)
		}, code: evidence.CodeBaselineUnresolved},
		"a pin of another profile": {pin: func(ctx context.Context) (queue.Pins, error) {
			p, err := pins(request("new"))(ctx)
			p.Profile = digestOf("9")
			return p, err
		}, code: evidence.CodeProfileDigestMismatch},
		"a pin of another repository": {pin: pins(request("other")), code: evidence.CodeRepositoryMismatch},
		"a pin that is no digest": {pin: func(ctx context.Context) (queue.Pins, error) {
			p, err := pins(request("new"))(ctx)
			p.Tools = "none"
			return p, err
		}, code: evidence.CodePinMismatch},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := request("new")
			r.TriggerKey = name
			if c.change != nil {
				c.change(&r)
			}
			if c.pin == nil {
				c.pin = pins(r)
			}
			_, _, err := s.Emit(t.Context(), r, queue.Emission{Pin: c.pin})
			require.Equal(t, c.code, evidence.CodeOf(err), "%v", err)
		})
	}
	t.Cleanup(func() {
		ctx := context.Background()
		var runs, jobs int
		if err := s.Pool().QueryRow(ctx, `SELECT (SELECT count(*) FROM ops_run), (SELECT count(*) FROM river_job)`).Scan(&runs, &jobs); err != nil {
			t.Error(err)
		}
		if runs != 1 || jobs != 1 {
			t.Errorf("refused emissions left %d runs and %d jobs", runs-1, jobs-1)
		}
	})
}

// A9, A19, A29
func TestRequestIsReadStrictly(t *testing.T) {
	t.Parallel()
	good, err := canonical.Marshal(request("strict"))
	require.NoError(t, err)
	_, err = queue.DecodeRequest(good)
	require.NoError(t, err)
	replace := func(old, new string) string {
		require.Contains(t, string(good), old)
		return strings.Replace(string(good), old, new, 1)
	}
	for name, c := range map[string]struct {
		document string
		code     evidence.Code
	}{
		"unknown field":         {replace(`"version":1`, `"version":1,"approach":"x"`), evidence.CodeContractInvalid},
		"duplicate key":         {replace(`"version":1`, `"version":1,"version":1`), evidence.CodeContractInvalid},
		"a secret's value":      {replace(`"version":1`, `"version":1,"secret_value":"x"`), evidence.CodeValueInContract},
		"a password":            {replace(`"version":1`, `"version":1,"password":"x"`), evidence.CodeValueInContract},
		"a token in the grant":  {replace(`"grant":{`, `"grant":{"token":"x",`), evidence.CodeValueInContract},
		"another version":       {replace(`"version":1`, `"version":2`), evidence.CodeContractInvalid},
		"bad UTF-8":             {replace(`format the code`, "form\xff"), evidence.CodeContractInvalid},
		"trailing data":         {string(good) + `{}`, evidence.CodeContractInvalid},
		"an unknown reference":  {replace(`"ticket"`, `"salary"`), evidence.CodeContractInvalid},
		"an over-long key":      {replace(`"strict"`, `"`+strings.Repeat("k", 257)+`"`), evidence.CodeContractInvalid},
		"a line break in a key": {replace(`"trigger_key":"strict"`, `"trigger_key":"a\nb"`), evidence.CodeContractInvalid},
		"no task":               {replace(`format the code`, ``), evidence.CodeContractInvalid},
		"an over-long task":     {replace(`format the code`, strings.Repeat("x", 64<<10+1)), evidence.CodeContractInvalid},
		"an operator alone":     {replace(`"operator":""`, `"operator":"ada"`), evidence.CodeContractInvalid},
		"no grant":              {replace(`"**/*.go"`, ``), evidence.CodeContractInvalid},
		"an endless deadline":   {replace(`"deadline_seconds":0`, `"deadline_seconds":9999999`), evidence.CodeContractInvalid},
		"a token in the task":   {replace(`format the code`, "use ghp_"+strings.Repeat("a1B2", 9)), evidence.CodeValueInContract},
		"a secret in a ref":     {replace(`"trigger_key":"strict"`, `"trigger_key":"hvs.`+strings.Repeat("a1B2", 9)+`"`), evidence.CodeValueInContract},
		"not an object":         {`[]`, evidence.CodeContractInvalid},
		"nothing":               {``, evidence.CodeContractInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := queue.DecodeRequest([]byte(c.document))
			require.Equal(t, c.code, evidence.CodeOf(err), "%v", err)
			var f *evidence.Failure
			require.ErrorAs(t, err, &f)
			require.Equal(t, evidence.StageEmit, f.Stage)
		})
	}
}

// A19
func TestAttributionDoesNotChangeWhatAnOperationMeans(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	first, second := request("attributed"), request("attributed")
	second.TriggerKey, second.OperationKey, second.Refs = "attributed-2", "attributed", map[string]string{"team": "core"}
	a, b := emit(t, s, first), emit(t, s, second)
	require.NotEqual(t, a.RequestDigest, b.RequestDigest)
	require.Equal(t, a.OperationKey, b.OperationKey)
}

// A46, A47, B30
func TestSuccessorComesOnceAndOnlyAfterARunThatChangedNothing(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	run := emit(t, s, request("again"))
	refused := func(run queue.Run) {
		t.Helper()
		next, err := run.Successor()
		require.NoError(t, err)
		_, _, err = s.Emit(t.Context(), next, queue.Emission{Pin: pins(next)})
		require.Equal(t, evidence.CodeSuccessorNotAllowed, evidence.CodeOf(err), "%v", err)
	}
	refused(run)
	lease := claim(t, s, run)
	start(t, t.Context(), lease)
	require.NoError(t, lease.Close(t.Context(), failed(evidence.EffectNotDispatched, evidence.CodeSessionFailed)))
	next, err := run.Successor()
	require.NoError(t, err)
	second := emit(t, s, next)
	require.Equal(t, run.ID, second.Supersedes)
	require.Equal(t, run.OperationKey, second.OperationKey)
	again, created, err := s.Emit(t.Context(), next, queue.Emission{Pin: pins(next)})
	require.NoError(t, err)
	require.False(t, created)
	require.Equal(t, second.ID, again.ID)
	other := next
	other.TriggerKey = "another attempt"
	_, _, err = s.Emit(t.Context(), other, queue.Emission{Pin: pins(other)})
	require.Equal(t, evidence.CodeSuccessorNotAllowed, evidence.CodeOf(err), "%v", err)

	complete(t, t.Context(), claim(t, s, second))
	refused(second)
}

// A12, A3
func TestChangedContractIsRefusedWhenItIsRead(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	run := emit(t, s, request("contract"))
	_, err := run.Contract()
	require.NoError(t, err)
	for name, change := range map[string]func(*queue.Run){
		"another task": func(r *queue.Run) {
			r.ContractBytes = []byte(strings.Replace(string(r.ContractBytes), "format the code", "delete the code", 1))
		},
		"another pin": func(r *queue.Run) {
			r.ContractBytes = []byte(strings.Replace(string(r.ContractBytes), digestOf("5"), digestOf("7"), 1))
		},
		"another digest": func(r *queue.Run) { r.ContractDigest = digestOf("0") },
		"no profile": func(r *queue.Run) {
			r.ContractBytes = []byte(strings.Replace(string(r.ContractBytes), `codemod@1.0.0#`+digestOf("1"), "", 1))
		},
	} {
		changed := run
		change(&changed)
		_, err := changed.Contract()
		require.Error(t, err, name)
		require.NotEqual(t, evidence.CodeUnclassified, evidence.CodeOf(err), name)
	}
}

func FuzzDecodeRequest(f *testing.F) {
	good, err := canonical.Marshal(request("fuzz"))
	require.NoError(f, err)
	f.Add(good)
	f.Add([]byte(`{"version":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := queue.DecodeRequest(data)
		if err != nil {
			require.NotEqual(t, evidence.CodeUnclassified, evidence.CodeOf(err))
			return
		}
		again, err := canonical.Marshal(r)
		require.NoError(t, err)
		second, err := queue.DecodeRequest(again)
		require.NoError(t, err)
		a, err := r.Digest()
		require.NoError(t, err)
		b, err := second.Digest()
		require.NoError(t, err)
		require.Equal(t, a, b)
	})
}

func FuzzDecodeContract(f *testing.F) {
	r := request("fuzz")
	p, err := pins(r)(context.Background())
	require.NoError(f, err)
	c := queue.Contract{Version: 1, Request: r, Pins: p}
	c.RequestDigest, err = r.Digest()
	require.NoError(f, err)
	good, err := canonical.Marshal(c)
	require.NoError(f, err)
	digest, err := c.Digest()
	require.NoError(f, err)
	_, err = queue.DecodeContract(good, digest)
	require.NoError(f, err)
	f.Add(good, digest)
	f.Add([]byte(`{"version":1,"pins":{}}`), digestOf("1"))
	f.Fuzz(func(t *testing.T, data []byte, digest string) {
		c, err := queue.DecodeContract(data, digest)
		if err != nil {
			require.NotEqual(t, evidence.CodeUnclassified, evidence.CodeOf(err))
			return
		}
		got, err := c.Digest()
		require.NoError(t, err)
		require.Equal(t, digest, got)
	})
}
