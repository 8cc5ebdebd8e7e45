package credential

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/hashicorp/vault/api"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/internal/canonical"
)

// Metadata keys of a child token. Sweep recognises tokens by them.
const (
	metaRun     = "harness_run"
	metaEpoch   = "harness_epoch"
	metaOwner   = "harness_owner"
	metaPurpose = "harness_purpose"
)

// maxPolicies bounds the policies of one child token.
const maxPolicies = 32

// Begin creates a child token with exactly the given policies, living ttl (1 s to MaxTTL, whole seconds) and not renewable,
// records its accessor in the ledger, and only then hands out a session. What Vault returns is compared with what was asked
// for: more authority, a longer life or a token hanging on the worker's own is refused and revoked. The error is a
// *evidence.Failure with the code credential_failed; what the ledger returned is in its tree.
//
// When Vault's answer is lost the token exists and nobody knows its accessor: it ends at ttl, or Sweep finds it. (A30, A31)
func (c *Client) Begin(ctx context.Context, holder Holder, policies []string, ttl time.Duration, ledger Ledger) (*Session, error) {
	session, err := c.begin(ctx, holder, policies, ttl, ledger)
	if err != nil {
		return nil, evidence.Fail(holder.Purpose.stage(), evidence.CodeCredentialFailed, string(holder.Purpose), err)
	}
	return session, nil
}

func (c *Client) begin(ctx context.Context, holder Holder, policies []string, ttl time.Duration, ledger Ledger) (*Session, error) {
	if err := holder.validate(); err != nil {
		return nil, err
	}
	if err := checkPolicies(policies); err != nil {
		return nil, err
	}
	if ttl < time.Second || ttl > MaxTTL || ttl%time.Second != 0 {
		return nil, fmt.Errorf("a token's lifetime of %s is not whole seconds up to %s", ttl, MaxTTL)
	}
	// Never sent twice: a second token would be one that nobody knows.
	vault, err := c.as(c.current().value, 0)
	if err != nil {
		return nil, err
	}
	asked := time.Now()
	no := false
	answer, err := vault.Auth().Token().CreateWithRoleWithContext(ctx, &api.TokenCreateRequest{
		Policies:        policies,
		NoDefaultPolicy: true,
		TTL:             strconv.Itoa(int(ttl/time.Second)) + "s",
		ExplicitMaxTTL:  strconv.Itoa(int(ttl/time.Second)) + "s",
		Renewable:       &no,
		Type:            "service",
		DisplayName:     "harness",
		Metadata: map[string]string{
			metaRun: holder.Run, metaEpoch: strconv.FormatInt(holder.Epoch, 10),
			metaOwner: holder.Owner, metaPurpose: string(holder.Purpose),
		},
	}, c.config.TokenRole)
	if err != nil {
		return nil, fmt.Errorf("create a token on the role %s: %w", c.config.TokenRole, err)
	}
	if answer == nil || answer.Auth == nil || answer.Auth.ClientToken == "" || answer.Auth.Accessor == "" {
		return nil, fmt.Errorf("create a token on the role %s: the answer holds no token", c.config.TokenRole)
	}
	auth := answer.Auth
	session := &Session{
		client: c, holder: holder, accessor: auth.Accessor, token: NewSecret([]byte(auth.ClientToken)), ledger: ledger,
		policies: slices.Clone(policies), ttl: ttl,
	}
	if session.accessorDigest, err = canonical.Digest(evidence.DomainAccessor, auth.Accessor); err != nil {
		return nil, errors.Join(err, session.abandon(ctx))
	}
	// Recorded even when it is refused below: a revocation that fails must leave a trace for the reaper.
	err = ledger.RecordToken(ctx, Token{
		Accessor: auth.Accessor, Run: holder.Run, Epoch: holder.Epoch, Purpose: holder.Purpose, ExpiresAt: asked.Add(ttl),
	})
	if err != nil {
		err = fmt.Errorf("record the accessor: %w", err)
	} else {
		err = checkCreated(auth, policies, ttl)
	}
	if err != nil {
		return nil, errors.Join(err, session.abandon(ctx))
	}
	session.ttl = time.Duration(auth.LeaseDuration) * time.Second // a role may grant less
	return session, nil
}

// abandonWithin bounds the revocation of a token that was never used.
const abandonWithin = 15 * time.Second

// abandon revokes a session that is not handed out, even when ctx has ended.
func (s *Session) abandon(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonWithin)
	defer cancel()
	s.token.Wipe()
	if err := s.client.RevokeAccessor(ctx, s.accessor); err != nil {
		return fmt.Errorf("revoke the unused token: %w", err)
	}
	return nil
}

func checkPolicies(policies []string) error {
	if len(policies) == 0 || len(policies) > maxPolicies {
		return fmt.Errorf("a token needs 1 to %d policies", maxPolicies)
	}
	for i, policy := range policies {
		if !policyForm.MatchString(policy) || slices.Contains(privileged, policy) || slices.Contains(policies[:i], policy) {
			return errors.New("a token's policies are not plain and distinct names")
		}
	}
	return nil
}

// checkCreated compares the token that Vault made with the one that was asked for.
func checkCreated(auth *api.SecretAuth, policies []string, ttl time.Duration) error {
	got, want := slices.Sorted(slices.Values(auth.Policies)), slices.Sorted(slices.Values(policies))
	switch {
	case !slices.Equal(got, want) || len(auth.IdentityPolicies) > 0:
		return errors.New("the token role gave other policies than were asked for")
	case auth.LeaseDuration <= 0 || time.Duration(auth.LeaseDuration)*time.Second > ttl:
		return errors.New("the token role gave another lifetime than was asked for")
	case auth.Renewable:
		return errors.New("the token role gave a renewable token")
	case !auth.Orphan:
		return errors.New("the token role is not an orphan role: its tokens would end with the worker's own")
	default:
		return nil
	}
}

// stage is where in the chain a token of that purpose is acquired.
func (p Purpose) stage() evidence.Stage {
	switch p {
	case PurposePublish:
		return evidence.StagePreflight
	case PurposeSigning:
		return evidence.StageClose
	case PurposeReconcile:
		return evidence.StageReconcile
	case PurposeCheck:
		return evidence.StageResolve
	default:
		return evidence.StageSession
	}
}
