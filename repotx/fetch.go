package repotx

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"

	"github.com/rein-aharness/harness/evidence"
)

// request is one question to upload-pack: want one commit, as shallow or as filtered as the purpose allows.
type request struct {
	want   string
	have   string // "" or a commit whose whole history need not be sent
	depth  int    // 0 for no bound
	filter string // "" or an object filter, asked only where the remote offers it
}

// errNotOffered says that the remote will not send a commit because no ref points at it any more.
var errNotOffered = errors.New("no ref of the remote points at the commit, and it serves only what a ref points at")

// encode checks the request against what the remote offers and writes it.
func (q request) encode(adv Advertisement) ([]byte, error) {
	tip := false
	for _, hash := range adv.Refs {
		tip = tip || hash == q.want
	}
	if !tip && !adv.Supports("allow-reachable-sha1-in-want") && !adv.Supports("allow-any-sha1-in-want") {
		return nil, errNotOffered
	}
	if !adv.Supports("side-band-64k") {
		return nil, errors.New("the remote has no side-band-64k")
	}
	caps := []string{"side-band-64k", "no-progress", "agent=" + strings.ReplaceAll(userAgent, " ", "-")}
	if adv.Supports("ofs-delta") {
		caps = append(caps, "ofs-delta")
	}
	if q.depth > 0 {
		if !adv.Supports("shallow") {
			return nil, errors.New("the remote cannot send a single commit without its history")
		}
		caps = append(caps, "shallow")
	}
	filter := q.filter != "" && adv.Supports("filter")
	if filter {
		caps = append(caps, "filter")
	}
	var buf bytes.Buffer
	e := pktline.NewEncoder(&buf)
	write := func(format string, args ...any) error { return e.Encodef(format+"\n", args...) }
	err := write("want %s %s", q.want, strings.Join(caps, " "))
	if q.depth > 0 {
		err = errors.Join(err, write("deepen %d", q.depth))
	}
	if filter {
		err = errors.Join(err, write("filter %s", q.filter))
	}
	err = errors.Join(err, e.Flush())
	if q.have != "" {
		err = errors.Join(err, write("have %s", q.have))
	}
	err = errors.Join(err, write("done"))
	return buf.Bytes(), err
}

// fetchInto asks for the request's objects and stores the pack, at most limit bytes of it, in a folder. It returns the number
// of objects.
func (r *Remote) fetchInto(ctx context.Context, c conversation, q request, limit int64, dir string) (uint32, error) {
	adv, err := c.advertisement(maxAdvertisementBytes)
	if err != nil {
		return 0, err
	}
	req, err := q.encode(adv)
	if err != nil {
		return 0, err
	}
	answer, err := c.exchange(limit, req)
	if err != nil {
		return 0, err
	}
	pack, err := readPackHeader(bufio.NewReader(answer), q.depth > 0)
	if err != nil {
		return 0, err
	}
	return storePack(ctx, dir, pack)
}

// readPackHeader reads what comes before the pack (the shallow section when one was asked for, one ACK or NAK) and returns
// the pack's bytes.
func readPackHeader(r *bufio.Reader, shallow bool) (io.Reader, error) {
	scan := pktline.NewScanner(r)
	for scan.Scan() {
		line := strings.TrimSuffix(string(scan.Bytes()), "\n")
		switch {
		case shallow && line == "":
			shallow = false
		case shallow && (strings.HasPrefix(line, "shallow ") || strings.HasPrefix(line, "unshallow ")):
		case !shallow && (line == "NAK" || strings.HasPrefix(line, "ACK ")):
			return sideband.NewDemuxer(sideband.Sideband64k, r), nil
		default:
			return nil, errors.New("the remote's answer is malformed before the pack")
		}
	}
	if err := scan.Err(); err != nil {
		var line *pktline.ErrorLine
		if errors.As(err, &line) && strings.Contains(line.Text, "not our ref") {
			return nil, errNotOffered
		}
		return nil, fmt.Errorf("reading the remote's answer: %w", err)
	}
	return nil, io.ErrUnexpectedEOF
}

// storePack writes a pack and its index and returns its number of objects. go-git names the pack only when all of it has been
// read and indexed.
func storePack(ctx context.Context, dir string, pack io.Reader) (objects uint32, err error) {
	buffered := bufio.NewReaderSize(pack, 64<<10)
	head, err := buffered.Peek(12)
	if err != nil {
		return 0, fmt.Errorf("reading the pack: %w", err)
	}
	objects = binary.BigEndian.Uint32(head[8:])
	if bytes.HasPrefix(head, []byte("PACK")) && objects == 0 {
		return 0, nil // which go-git cannot store: there was nothing to send
	}
	into := fillStorage(dir)
	defer func() { err = errors.Join(err, into.Close()) }()
	w, err := into.PackfileWriter()
	if err != nil {
		return 0, fmt.Errorf("storing the pack: %w", err)
	}
	_, err = io.Copy(w, buffered)
	if err == nil {
		err = ctx.Err()
	}
	if closeErr := w.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return 0, fmt.Errorf("storing the pack: %w", err)
	}
	return objects, nil
}

// Fetch gives the content of one commit: from the cache, or from the remote without its history. A commit that no ref
// points at any more can be had only from a remote that allows reachable objects to be asked for; else the failure is
// CodeBaselineMoved. The caller closes the baseline.
func (r *Remote) Fetch(ctx context.Context, commit string) (*Baseline, error) {
	if !isHash(commit) {
		return nil, evidence.Fail(evidence.StagePreflight, evidence.CodeContractInvalid, "baseline", errors.New("not a commit hash"))
	}
	b, err := r.fetch(ctx, commit)
	if errors.Is(err, errEntryUnreadable) && ctx.Err() == nil {
		b, err = r.fetch(ctx, commit) // the damaged entry is gone; one fresh fetch decides
	}
	if err == nil {
		return b, nil
	}
	switch {
	case errors.Is(err, errNotOffered):
		return nil, evidence.Fail(evidence.StagePreflight, evidence.CodeBaselineMoved, commit, err)
	case errors.Is(err, errAnswerTooLong) || errors.Is(err, errCacheFull) || diskFull(err):
		return nil, evidence.Fail(evidence.StagePreflight, evidence.CodeCacheExhausted, "cache", err)
	}
	return nil, classify(evidence.StagePreflight, r.repo.ID, err)
}

// errEntryUnreadable says that a cached baseline is damaged. It has been removed.
var errEntryUnreadable = errors.New("the cached baseline is damaged")

func (r *Remote) fetch(ctx context.Context, commit string) (*Baseline, error) {
	e, err := r.store.cache.entry(ctx, r.repo.ID, commit, func(ctx context.Context, dir string) error {
		return r.converse(ctx, r.store.config.FetchTimeout, uploadPack, func(ctx context.Context, c conversation) error {
			_, err := r.fetchInto(ctx, c, request{want: commit, depth: 1}, r.store.config.CacheBytes, dir)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	b, err := openBaseline(ctx, e, commit, r.store.config.PackBytes)
	if err == nil {
		return b, nil
	}
	e.close()
	var refused *evidence.Failure
	if errors.As(err, &refused) || ctx.Err() != nil {
		return nil, err
	}
	_, removeErr := removeUnused(e.dir)
	return nil, errors.Join(fmt.Errorf("%w: %w", errEntryUnreadable, err), removeErr)
}
