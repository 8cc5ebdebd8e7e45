package queue

import (
	"errors"
	"fmt"

	"github.com/rein-aharness/harness/evidence"
	"github.com/rein-aharness/harness/internal/canonical"
	"github.com/rein-aharness/harness/profiles"
	"github.com/rein-aharness/harness/repotx"
)

// Pins are what a request was resolved to at its emission. Nothing may stand in for any of them later. (A3)
type Pins struct {
	Repository  string `json:"repository"` // canonical identity
	Baseline    string `json:"baseline"`   // commit
	Profile     string `json:"profile"`    // digest of the whole profile; the others are those of its parts
	Rein        string `json:"rein"`
	Model       string `json:"model"`
	Tools       string `json:"tools"`
	Sandbox     string `json:"sandbox"`
	Credentials string `json:"credentials"`
}

// Contract is the immutable, content-addressed agreement of one run.
type Contract struct {
	Version       int     `json:"version"` // 1
	RequestDigest string  `json:"request_digest"`
	Request       Request `json:"request"`
	Pins          Pins    `json:"pins"`
}

// Grant is what the request allows, on the canonical repository.
func (c Contract) Grant() repotx.Grant {
	return c.Request.grant(repotx.Repository{ID: c.Pins.Repository})
}

func newContract(r Request, p Pins) (Contract, error) {
	digest, err := r.Digest()
	if err != nil {
		return Contract{}, evidence.Fail(evidence.StageEmit, evidence.CodeContractInvalid, "request", err)
	}
	c := Contract{Version: 1, RequestDigest: digest, Request: r, Pins: p}
	return c, c.validate()
}

// Digest is the contract's content address.
func (c Contract) Digest() (string, error) {
	return canonical.Digest(evidence.DomainContract, c)
}

// DecodeContract reads a stored contract and checks that it says what its digests say. (A12)
func DecodeContract(data []byte, digest string) (Contract, error) {
	fail := func(code evidence.Code, err error) (Contract, error) {
		return Contract{}, evidence.Fail(evidence.StageClaim, code, "contract", err)
	}
	var c Contract
	if err := canonical.DecodeJSON(data, &c, requestBounds()); err != nil {
		return fail(evidence.CodeContractInvalid, err)
	}
	if err := c.Request.Validate(); err != nil {
		return fail(evidence.CodeOf(err), err)
	}
	if err := c.validate(); err != nil {
		return fail(evidence.CodePinMismatch, err)
	}
	request, err := c.Request.Digest()
	if err != nil {
		return fail(evidence.CodeContractInvalid, err)
	}
	whole, err := canonical.DigestBytes(evidence.DomainContract, data)
	if err != nil {
		return fail(evidence.CodeContractInvalid, err)
	}
	if request != c.RequestDigest || whole != digest {
		return fail(evidence.CodePinMismatch, errors.New("the contract does not have its digest"))
	}
	return c, nil
}

func (c Contract) validate() error {
	if c.Version != 1 {
		return fmt.Errorf("contract: version %d is not known", c.Version)
	}
	repository, err := repotx.Canonical(c.Request.Repository)
	if err != nil {
		return err
	}
	if c.Pins.Repository != repository.ID {
		return evidence.Fail(evidence.StageEmit, evidence.CodeRepositoryMismatch, c.Pins.Repository, nil)
	}
	ref, err := profiles.ParseRef(c.Request.Profile)
	if err != nil {
		return err
	}
	if c.Pins.Profile != ref.Digest {
		return evidence.Fail(evidence.StageEmit, evidence.CodeProfileDigestMismatch, ref.Revision(), nil)
	}
	if !commitPattern.MatchString(c.Pins.Baseline) {
		return evidence.Fail(evidence.StageEmit, evidence.CodeBaselineUnresolved, c.Request.BaseRef, errors.New("the baseline is not a commit"))
	}
	for name, digest := range map[string]string{
		"profile": c.Pins.Profile, "rein": c.Pins.Rein, "model": c.Pins.Model, "tools": c.Pins.Tools,
		"sandbox": c.Pins.Sandbox, "credentials": c.Pins.Credentials,
	} {
		if !canonical.ValidDigest(digest) {
			return evidence.Fail(evidence.StageEmit, evidence.CodePinMismatch, name, errors.New("the pin is not a digest"))
		}
	}
	return nil
}
