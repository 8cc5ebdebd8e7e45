package evidence

// The domains of the harness's digests. One content under two domains has two digests, so no document can stand in for another.
const (
	DomainRequest  = "harness.request.v1"  // what the caller said
	DomainContract = "harness.contract.v1" // the request with its pins
	DomainProfile  = "harness.profile.v1"  // one profile revision
	DomainRein     = "harness.rein.v1"     // the parts of a profile that are pinned by themselves
	DomainModel    = "harness.model.v1"
	DomainTools    = "harness.tools.v1"
	DomainSandbox  = "harness.sandbox.v1"
	DomainRoutes   = "harness.credentials.v1"
	DomainManifest = "harness.manifest.v1"
	DomainTrigger  = "harness.trigger.v1"  // a trigger key, which may name a person or a ticket
	DomainAccessor = "harness.accessor.v1" // a Vault accessor, which must not be shown
	DomainFact     = "harness.fact.v1"     // one fact of a chain
)
