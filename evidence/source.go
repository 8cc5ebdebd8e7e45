package evidence

// Source says where a fact's content comes from, and so how far it can be believed.
type Source string

// The sources. What a session says about itself is never more than reported.
const (
	SourceObserved    Source = "observed"     // seen by the harness itself, or by a system it trusts
	SourceReported    Source = "reported"     // said by the session or over its wire after it began
	SourceDeclared    Source = "declared"     // said by a caller or an operator
	SourceNotObserved Source = "not_observed" // could not be seen from where the fact was made
)

// Sources lists every source.
func Sources() []Source {
	return []Source{SourceObserved, SourceReported, SourceDeclared, SourceNotObserved}
}
