package evidence_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/rein-aharness/harness/evidence"
)

// CASES 38, 41. A42
func TestBodiesAreEscapedAndBoundedAndSayWhatWasCut(t *testing.T) {
	t.Parallel()
	steps := goodSteps()
	emitted := steps[0].body.(evidence.Emitted)
	emitted.Definition = "night\u202ely\x1b[2J" + strings.Repeat("x", 1000)
	emitted.Refs = map[string]string{"evil\nkey": "evil\x00value"}
	for i := range 200 {
		emitted.Refs[fmt.Sprintf("r%03d", i)] = "v"
	}
	steps[0].body = emitted
	for i := range steps {
		if b, ok := steps[i].body.(evidence.Intended); ok {
			b.ChangedPaths = nil
			for n := range 1500 {
				b.ChangedPaths = append(b.ChangedPaths, fmt.Sprintf("p%04d\n", n))
			}
			b.ChangedPaths[0] = strings.Repeat("a", 5000)
			steps[i].body = b
		}
	}
	c, err := record(steps)
	require.NoError(t, err)
	require.NoError(t, evidence.VerifyChain(runID, c.Facts()))

	e, found, err := evidence.First[evidence.Emitted](c.Facts())
	require.NoError(t, err)
	require.True(t, found)
	require.True(t, strings.HasPrefix(e.Definition, `night\u202ely\u001b[2Jxxx`))
	require.True(t, strings.HasSuffix(e.Definition, "…[+"+fmt.Sprint(1000+len(`night\u202ely\u001b[2J`)-256)+"]"))
	require.Len(t, e.Refs, 128)
	require.Equal(t, map[string]int{"refs": 73}, e.Cut)
	require.Equal(t, `evil\u0000value`, e.Refs[`evil\nkey`])

	i, _, err := evidence.Last[evidence.Intended](c.Facts())
	require.NoError(t, err)
	require.Len(t, i.ChangedPaths, 1000)
	require.Equal(t, map[string]int{"changed_paths": 500}, i.Cut)
	require.Equal(t, strings.Repeat("a", 4096)+"…[+904]", i.ChangedPaths[0])
	require.Equal(t, `p0001\n`, i.ChangedPaths[1])
}

func TestABodyNeverOutgrowsItsBudget(t *testing.T) {
	t.Parallel()
	steps := goodSteps()[:11]
	b := steps[10].body.(evidence.Intended)
	b.ChangedPaths = nil
	for range 1000 {
		b.ChangedPaths = append(b.ChangedPaths, strings.Repeat("\x01", 4096))
	}
	steps[10].body = b
	c, err := record(steps)
	require.NoError(t, err)
	require.NoError(t, evidence.VerifyChain(runID, c.Facts()))
	require.Less(t, len(c.Facts()[10].Body), 3<<20)
	i, _, err := evidence.Last[evidence.Intended](c.Facts())
	require.NoError(t, err)
	require.Equal(t, 1000, i.Cut["changed_paths"]+len(i.ChangedPaths))
}

func TestAppendLeavesTheCallersBodyAlone(t *testing.T) {
	t.Parallel()
	steps := goodSteps()[:1]
	emitted := steps[0].body.(evidence.Emitted)
	emitted.Refs = map[string]string{"a": "b\n"}
	steps[0].body = &emitted
	_, err := record(steps)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a": "b\n"}, emitted.Refs)
	require.Nil(t, emitted.Cut)
}

// Stored bytes are taken only in the one form that Append can have written. A28, A42, B19
func TestABodyThatAppendCannotHaveWrittenIsRefused(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]evidence.Fact{
		"unknown kind":        {Kind: "prompted", Body: jsontext.Value(`{}`)},
		"unknown field":       {Kind: evidence.KindStarted, Body: jsontext.Value(`{"at":"","prompt":"p"}`)},
		"missing field":       {Kind: evidence.KindStarted, Body: jsontext.Value(`{}`)},
		"space":               {Kind: evidence.KindStarted, Body: jsontext.Value(`{"at": ""}`)},
		"another escape":      {Kind: evidence.KindStarted, Body: jsontext.Value(`{"at":"\u0061"}`)},
		"control character":   {Kind: evidence.KindStarted, Body: jsontext.Value(`{"at":"\u001b"}`)},
		"invisible character": {Kind: evidence.KindStarted, Body: jsontext.Value("{\"at\":\"\u202e\"}")},
		"too long":            {Kind: evidence.KindStarted, Body: jsontext.Value(`{"at":"` + strings.Repeat("a", 300) + `"}`)},
		"number beyond exact": {Kind: evidence.KindTornDown, Body: jsontext.Value(`{"tokens_left":9007199254740992}`)},
		"empty cut":           {Kind: evidence.KindStarted, Body: jsontext.Value(`{"at":"","cut":{"at":0}}`)},
		"open enum":           {Kind: evidence.KindCancelled, Body: jsontext.Value(`{"by":1,"reason":""}`)},
		"no body":             {Kind: evidence.KindStarted},
	} {
		_, err := f.Open()
		require.ErrorIs(t, err, evidence.ErrFactMalformed, name)
	}
}

// Every field of every body is a bounded string, a number, a flag, or a bounded list or map of such: nothing else has a place to
// go. A28
func TestEveryBodyIsMadeOfBoundedFields(t *testing.T) {
	t.Parallel()
	for _, b := range bodies() {
		c := evidence.NewChain(runID)
		_, err := c.Append(start, 0, "", "", b)
		require.Error(t, err)
		require.NotContains(t, err.Error(), "has no bound", b.Kind())
		typ := reflect.TypeOf(b)
		for i := range typ.NumField() {
			f := typ.Field(i)
			require.True(t, f.IsExported())
			require.NotEqual(t, reflect.Interface, f.Type.Kind())
			require.NotEqual(t, reflect.TypeFor[[]byte](), f.Type)
		}
	}
}

// A43
func TestKindsAreTheBodies(t *testing.T) {
	t.Parallel()
	var kinds []evidence.Kind
	for _, b := range bodies() {
		kinds = append(kinds, b.Kind())
	}
	require.Equal(t, evidence.Kinds(), kinds)
}

func bodies() []evidence.Body {
	return []evidence.Body{
		evidence.Emitted{Actor: evidence.ActorAgent},
		evidence.Claimed{},
		evidence.Resolved{},
		evidence.Admitted{},
		evidence.Started{},
		evidence.Preflighted{},
		evidence.Sandboxed{Actor: evidence.ActorAgent},
		evidence.SessionEnded{},
		evidence.Captured{},
		evidence.TornDown{},
		evidence.Intended{},
		evidence.Published{},
		evidence.Found{},
		evidence.Settled{},
		evidence.Cancelled{},
		evidence.Closed{},
		evidence.Failed{},
	}
}
