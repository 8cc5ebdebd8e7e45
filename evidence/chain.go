package evidence

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// What can be wrong with a chain. Each is the Rule of a *ChainError and is found with errors.Is.
var (
	ErrFactMalformed = errors.New("malformed fact")
	ErrFactAltered   = errors.New("the fact's content does not match its digest")
	ErrChainBroken   = errors.New("the fact does not follow the one before it")
	ErrForeignFact   = errors.New("the fact belongs to another run")
	ErrOrder         = errors.New("the fact may not stand here")
	ErrChainEmpty    = errors.New("the chain has no facts")
)

// ChainError names the fact at which a chain stops being good.
type ChainError struct {
	Run  string
	Seq  int // from 1
	Kind Kind
	Err  error // wraps one of this package's sentinels
}

func (e *ChainError) Error() string {
	return fmt.Sprintf("fact %d (%s) of run %s: %v", e.Seq, Clean(string(e.Kind), 64), Clean(e.Run, 128), e.Err)
}

func (e *ChainError) Unwrap() error { return e.Err }

// Chain is the growing list of one run's facts. Its methods may be called from several goroutines; the facts stand in the order in
// which Append was called.
type Chain struct {
	mu    sync.Mutex
	run   string
	facts []Fact
	seen  map[Kind]bool

	epoch     int64 // of the last fact
	claim     int64 // of the last Claimed
	lastTear  TornDown
	intended  Intended
	published Published
	found     Found
	settled   Settled
}

// NewChain returns an empty chain for a run.
func NewChain(run string) *Chain { return &Chain{run: run, seen: map[Kind]bool{}} }

// Resume verifies stored facts and returns their chain, ready to be continued.
func Resume(facts []Fact) (*Chain, error) {
	if len(facts) == 0 {
		return nil, ErrChainEmpty
	}
	return replay(facts[0].Run, facts)
}

// VerifyChain recomputes every digest, link, body and the order of the facts of a run. The first fault is a *ChainError. It cannot
// see that facts are missing at the end; the signed statement does. (A20)
func VerifyChain(run string, facts []Fact) error {
	if len(facts) == 0 {
		return fmt.Errorf("run %s: %w", Clean(run, 128), ErrChainEmpty)
	}
	_, err := replay(run, facts)
	return err
}

func replay(run string, facts []Fact) (*Chain, error) {
	c := NewChain(run)
	for i, f := range facts {
		if err := c.take(f); err != nil {
			return nil, &ChainError{Run: run, Seq: i + 1, Kind: f.Kind, Err: err}
		}
	}
	return c, nil
}

// Append makes the next fact. The body's strings are escaped and its strings, lists and maps bounded. It refuses with a *ChainError
// what may not stand at this place, and with a *Failure an acceptance that session, sandbox or teardown evidence does not
// carry. at is rounded down to microseconds. (A1)
func (c *Chain) Append(at time.Time, epoch int64, stage Stage, source Source, body Body) (Fact, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	refuse := func(err error) (Fact, error) {
		e := &ChainError{Run: c.run, Seq: len(c.facts) + 1, Err: err}
		if body != nil {
			e.Kind = body.Kind()
		}
		return Fact{}, e
	}
	if body == nil {
		return refuse(fmt.Errorf("%w: no body", ErrFactMalformed))
	}
	sealed, data, err := seal(body)
	if err != nil {
		return refuse(err)
	}
	f := Fact{
		Run: c.run, Seq: len(c.facts) + 1, Epoch: epoch, Stage: stage, Kind: sealed.Kind(), Source: source,
		At: FormatTime(at), Body: data, Prev: c.head(),
	}
	if err := c.admit(f, sealed); err != nil {
		var failure *Failure
		if errors.As(err, &failure) {
			return Fact{}, err
		}
		return refuse(err)
	}
	if f.Digest, err = f.digest(); err != nil {
		return refuse(err)
	}
	c.push(f, sealed)
	return f, nil
}

// Facts returns a copy of the list of facts.
func (c *Chain) Facts() []Fact {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.facts)
}

// Head returns the digest of the last fact, empty if there is none, and the number of facts.
func (c *Chain) Head() (digest string, count int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.head(), len(c.facts)
}

func (c *Chain) head() string {
	if len(c.facts) == 0 {
		return ""
	}
	return c.facts[len(c.facts)-1].Digest
}

// take adds a stored fact if it is exactly the fact that can stand here.
func (c *Chain) take(f Fact) error {
	if f.Run != c.run {
		return ErrForeignFact
	}
	if f.Seq != len(c.facts)+1 {
		return fmt.Errorf("%w: it says to be number %d", ErrChainBroken, f.Seq)
	}
	if f.Prev != c.head() {
		return fmt.Errorf("%w: its predecessor has another digest", ErrChainBroken)
	}
	digest, err := f.digest()
	if err != nil {
		return err
	}
	if digest != f.Digest {
		return ErrFactAltered
	}
	body, err := f.Open()
	if err != nil {
		return err
	}
	if _, err := ParseTime(f.At); err != nil {
		return err
	}
	if err := c.admit(f, body); err != nil {
		return err
	}
	c.push(f, body)
	return nil
}

func (c *Chain) push(f Fact, body Body) {
	c.facts = append(c.facts, f)
	c.seen[f.Kind] = true
	c.epoch = f.Epoch
	switch b := body.(type) {
	case Claimed:
		c.claim = f.Epoch
	case TornDown:
		c.lastTear = b
	case Intended:
		c.intended = b
	case Published:
		c.published = b
	case Found:
		c.found = b
	case Settled:
		c.settled = b
	}
}
