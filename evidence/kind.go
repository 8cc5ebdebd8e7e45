package evidence

import (
	"reflect"
	"slices"
)

// Kind names a body. The set is closed.
type Kind string

// The kinds, in the order in which a run that succeeds has them.
const (
	KindEmitted      Kind = "emitted"
	KindClaimed      Kind = "claimed"
	KindResolved     Kind = "resolved"
	KindAdmitted     Kind = "admitted"
	KindStarted      Kind = "started"
	KindPreflighted  Kind = "preflighted"
	KindSandboxed    Kind = "sandboxed"
	KindSessionEnded Kind = "session_ended"
	KindCaptured     Kind = "captured"
	KindTornDown     Kind = "torn_down"
	KindIntended     Kind = "intended"
	KindPublished    Kind = "published"
	KindFound        Kind = "found" // instead of an intent whose record is lost
	KindSettled      Kind = "settled"
	KindCancelled    Kind = "cancelled"
	KindClosed       Kind = "closed"
	KindFailed       Kind = "failed"
)

// Kinds lists every kind.
func Kinds() []Kind {
	kinds := make([]Kind, len(rules))
	for i, r := range rules {
		kinds[i] = r.kind
	}
	return kinds
}

// rule says what a fact of one kind may look like and what must stand in the chain before it.
type rule struct {
	kind    Kind
	body    Body
	stages  []Stage  // empty: any
	sources []Source // empty: any
	needs   []Kind
}

var rules = []rule{
	{KindEmitted, Emitted{}, []Stage{StageEmit}, []Source{SourceObserved, SourceDeclared}, nil},
	{KindClaimed, Claimed{}, []Stage{StageClaim, StageReconcile}, []Source{SourceObserved}, nil},
	{KindResolved, Resolved{}, []Stage{StageResolve}, []Source{SourceObserved}, []Kind{KindClaimed}},
	{KindAdmitted, Admitted{}, []Stage{StageAdmit, StageAccept}, []Source{SourceObserved}, []Kind{KindResolved}},
	{KindStarted, Started{}, []Stage{StagePreflight}, []Source{SourceObserved}, []Kind{KindAdmitted}},
	{KindPreflighted, Preflighted{}, []Stage{StagePreflight}, []Source{SourceObserved}, []Kind{KindStarted}},
	{KindSandboxed, Sandboxed{}, []Stage{StageSandbox}, []Source{SourceObserved}, []Kind{KindStarted}},
	{KindSessionEnded, SessionEnded{}, []Stage{StageSession}, []Source{SourceObserved, SourceReported}, []Kind{KindSandboxed}},
	{KindCaptured, Captured{}, []Stage{StageCapture}, []Source{SourceObserved, SourceReported}, []Kind{KindSessionEnded}},
	{
		KindTornDown,
		TornDown{},
		[]Stage{StageTeardown, StageReconcile},
		[]Source{SourceObserved, SourceNotObserved},
		[]Kind{KindStarted},
	},
	{KindIntended, Intended{}, []Stage{StageAccept}, []Source{SourceObserved}, acceptanceNeeds},
	{KindPublished, Published{}, []Stage{StageAccept}, []Source{SourceObserved}, []Kind{KindIntended}},
	{KindFound, Found{}, []Stage{StageAccept, StageClose, StageReconcile}, []Source{SourceObserved}, []Kind{KindClaimed}},
	{
		KindSettled,
		Settled{},
		[]Stage{StageAccept, StageClose, StageReconcile},
		[]Source{SourceObserved, SourceDeclared},
		[]Kind{KindClaimed},
	},
	{KindCancelled, Cancelled{}, nil, []Source{SourceObserved, SourceDeclared}, nil},
	{KindClosed, Closed{}, []Stage{StageClose, StageReconcile}, []Source{SourceObserved}, nil},
	{KindFailed, Failed{}, nil, nil, nil},
}

// acceptanceNeeds is what must stand behind an acceptance. (A1)
var acceptanceNeeds = []Kind{
	KindClaimed, KindResolved, KindAdmitted, KindStarted, KindPreflighted, KindSandboxed, KindSessionEnded, KindCaptured, KindTornDown,
}

func ruleOf(k Kind) (rule, bool) {
	i := slices.IndexFunc(rules, func(r rule) bool { return r.kind == k })
	if i < 0 {
		return rule{}, false
	}
	return rules[i], true
}

func (r rule) allows(stage Stage, source Source) bool {
	stages, sources := r.stages, r.sources
	if len(stages) == 0 {
		stages = Stages()
	}
	if len(sources) == 0 {
		sources = Sources()
	}
	return slices.Contains(stages, stage) && slices.Contains(sources, source)
}

func (r rule) bodyType() reflect.Type { return reflect.TypeOf(r.body) }

// Kind implements Body.
func (Emitted) Kind() Kind { return KindEmitted }
func (Emitted) body()      {}

// Kind implements Body.
func (Claimed) Kind() Kind { return KindClaimed }
func (Claimed) body()      {}

// Kind implements Body.
func (Resolved) Kind() Kind { return KindResolved }
func (Resolved) body()      {}

// Kind implements Body.
func (Admitted) Kind() Kind { return KindAdmitted }
func (Admitted) body()      {}

// Kind implements Body.
func (Started) Kind() Kind { return KindStarted }
func (Started) body()      {}

// Kind implements Body.
func (Preflighted) Kind() Kind { return KindPreflighted }
func (Preflighted) body()      {}

// Kind implements Body.
func (Sandboxed) Kind() Kind { return KindSandboxed }
func (Sandboxed) body()      {}

// Kind implements Body.
func (SessionEnded) Kind() Kind { return KindSessionEnded }
func (SessionEnded) body()      {}

// Kind implements Body.
func (Captured) Kind() Kind { return KindCaptured }
func (Captured) body()      {}

// Kind implements Body.
func (TornDown) Kind() Kind { return KindTornDown }
func (TornDown) body()      {}

// Kind implements Body.
func (Intended) Kind() Kind { return KindIntended }
func (Intended) body()      {}

// Kind implements Body.
func (Published) Kind() Kind { return KindPublished }
func (Published) body()      {}

// Kind implements Body.
func (Found) Kind() Kind { return KindFound }
func (Found) body()      {}

// Kind implements Body.
func (Settled) Kind() Kind { return KindSettled }
func (Settled) body()      {}

// Kind implements Body.
func (Cancelled) Kind() Kind { return KindCancelled }
func (Cancelled) body()      {}

// Kind implements Body.
func (Closed) Kind() Kind { return KindClosed }
func (Closed) body()      {}

// Kind implements Body.
func (Failed) Kind() Kind { return KindFailed }
func (Failed) body()      {}
