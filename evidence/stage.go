package evidence

// Stage names one link of the chain. The set is closed.
type Stage string

// The stages, in the order of the chain. StageReconcile stands beside the chain: it settles what a worker left behind.
const (
	StageEmit      Stage = "emit"
	StageClaim     Stage = "claim"
	StageResolve   Stage = "resolve"
	StageAdmit     Stage = "admit"
	StagePreflight Stage = "preflight"
	StageSandbox   Stage = "sandbox"
	StageSession   Stage = "session"
	StageCapture   Stage = "capture"
	StageTeardown  Stage = "teardown"
	StageAccept    Stage = "accept"
	StageClose     Stage = "close"
	StageDeliver   Stage = "deliver"
	StageReconcile Stage = "reconcile"
)

// Stages lists every stage in the order of the chain.
func Stages() []Stage {
	return []Stage{
		StageEmit, StageClaim, StageResolve, StageAdmit, StagePreflight, StageSandbox, StageSession,
		StageCapture, StageTeardown, StageAccept, StageClose, StageDeliver, StageReconcile,
	}
}

// Effect says what is known about the change on the remote. It is kept apart from whether evidence of it is durable. (B28)
type Effect string

// The five effects.
const (
	EffectNotDispatched Effect = "not_dispatched"
	EffectConfirmed     Effect = "confirmed"
	EffectNotApplied    Effect = "not_applied"
	EffectPartial       Effect = "partial"
	EffectUnknown       Effect = "unknown"
)

// Effects lists every effect.
func Effects() []Effect {
	return []Effect{EffectNotDispatched, EffectConfirmed, EffectNotApplied, EffectPartial, EffectUnknown}
}

// Final reports whether the effect is settled: nothing that happens later can change it, so a run may close with it.
func (e Effect) Final() bool {
	return e == EffectNotDispatched || e == EffectConfirmed || e == EffectNotApplied
}

// Actor is the governed identity of the runtime. It is never the worker's name. (A18)
type Actor string

// ActorAgent is the only actor this runtime may act as.
const ActorAgent Actor = "agt"

// Valid reports whether a is a known actor; the empty actor is not.
func (a Actor) Valid() bool { return a == ActorAgent }
