package evidence

import "slices"

// Scope says what a check needs.
type Scope string

// The scopes.
const (
	ScopeOffline Scope = "offline" // the record and the trust file
	ScopeRemote  Scope = "remote"  // the repository as it is now
)

// Result is the outcome of one check.
type Result string

// The results. Only fail speaks against a run: what a later legitimate run replaced is superseded, and what retention has removed is
// expired. (B45)
const (
	ResultPass         Result = "pass"
	ResultFail         Result = "fail"
	ResultNotEvaluated Result = "not_evaluated"
	ResultSuperseded   Result = "superseded"
	ResultExpired      Result = "expired"
)

// Results lists every result.
func Results() []Result {
	return []Result{ResultPass, ResultFail, ResultNotEvaluated, ResultSuperseded, ResultExpired}
}

// The checks of VerifyOffline, in the order of its report. Those in required must pass for a report to be good.
const (
	CheckChain     = "chain"     // every fact is unaltered and follows the one before, and no stage is skipped
	CheckEnvelope  = "envelope"  // the signed statement is well-formed
	CheckSignature = "signature" // a trusted key made the signature
	CheckKey       = "key"       // and was valid when the run closed
	CheckStatement = "statement" // the statement says exactly what the facts say, and covers all of them
	CheckPins      = "pins"      // what was emitted, resolved and intended is one and the same
	CheckIsolation = "isolation" // the observed posture of the sandbox is the declared one
	CheckContract  = "contract"  // the contract has the digest that was emitted
	CheckProfile   = "profile"   // the profile has the digest that was emitted
	CheckCommit    = "commit"    // the commit's bytes have the intended hash, tree, parent and trailers
	CheckPack      = "pack"      // the pack has the intended digest
	CheckLater     = "later"     // facts that were supplied after the signature
)

var required = []string{CheckChain, CheckEnvelope, CheckSignature, CheckKey, CheckStatement, CheckPins}

// Check is one line of a report. Detail is safe to print.
type Check struct {
	Name   string `json:"name"`
	Scope  Scope  `json:"scope"`
	Result Result `json:"result"`
	Detail string `json:"detail"`
}

// Report is what a verification found, check by check, in the order in which they were made.
type Report struct {
	Run    string  `json:"run"`
	Checks []Check `json:"checks"`
}

// Add appends a check. Whoever looks at the remote adds its checks so.
func (r *Report) Add(c Check) {
	c.Detail = Clean(c.Detail, 512)
	r.Checks = append(r.Checks, c)
}

// OK reports whether no check failed and every check that any run must pass did pass.
func (r Report) OK() bool {
	for _, c := range r.Checks {
		if c.Result == ResultFail {
			return false
		}
	}
	for _, name := range required {
		if r.Result(name) != ResultPass {
			return false
		}
	}
	return true
}

// Result returns the result of a check by its name; a check that was not made is not evaluated.
func (r Report) Result(name string) Result {
	i := slices.IndexFunc(r.Checks, func(c Check) bool { return c.Name == name })
	if i < 0 {
		return ResultNotEvaluated
	}
	return r.Checks[i].Result
}

// Failed returns the checks that failed.
func (r Report) Failed() []Check {
	var failed []Check
	for _, c := range r.Checks {
		if c.Result == ResultFail {
			failed = append(failed, c)
		}
	}
	return failed
}
