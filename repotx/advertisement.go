package repotx

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"

	"github.com/rein-aharness/harness/evidence"
)

// Advertisement is what a remote says about itself at the start of a conversation: its refs and what it can do.
type Advertisement struct {
	// Refs maps a full ref name to the hash (40 hex digits) it points at. Peeled tags and ".have" lines are left out.
	Refs map[string]string
	// Capabilities maps a capability to its value, "" when it has none.
	Capabilities map[string]string
}

// Supports reports whether the remote names the capability.
func (a Advertisement) Supports(capability string) bool {
	_, ok := a.Capabilities[capability]
	return ok
}

// Fenceable reports whether the remote can decide by the fence: several refs in one atomic update, with a report. (B35)
func (a Advertisement) Fenceable() bool { return a.Supports("atomic") && a.Supports("report-status") }

// RequireFence refuses a remote that is not Fenceable, with CodeRemoteUnsupported naming what is missing.
func (a Advertisement) RequireFence() error {
	for _, c := range []string{"report-status", "atomic"} {
		if !a.Supports(c) {
			return evidence.Fail(evidence.StagePreflight, evidence.CodeRemoteUnsupported, c,
				fmt.Errorf("the remote does not advertise %q", c))
		}
	}
	return nil
}

const zeroHash = "0000000000000000000000000000000000000000"

// maxAdvertisedRefs bounds the refs of one advertisement.
const maxAdvertisedRefs = 1 << 20

var errSHA256 = errors.New("the remote's object format is not sha1")

// readAdvertisement parses protocol version 0, with or without the header line of smart http. It is strict: go-git's own
// parser reads a malformed hash as the zero hash, which would mean "absent" here.
func readAdvertisement(r io.Reader) (Advertisement, error) {
	adv := Advertisement{Refs: map[string]string{}, Capabilities: map[string]string{}}
	scan := pktline.NewScanner(r)
	first := true
	service := false
	for scan.Scan() {
		raw := scan.Bytes()
		if len(raw) == 0 {
			if service {
				service = false // the flush that ends the http header
				continue
			}
			return adv, nil
		}
		line := string(bytes.TrimSuffix(raw, []byte("\n")))
		switch {
		case first && strings.HasPrefix(line, "# service="):
			service = true
			continue
		case strings.HasPrefix(line, "version "):
			return adv, fmt.Errorf("the remote speaks %q, not version 0", line)
		case strings.HasPrefix(line, "shallow "):
			continue
		}
		service = false
		if first {
			first = false
			head, caps, ok := strings.Cut(line, "\x00")
			if !ok {
				return adv, errors.New("the first ref has no capabilities")
			}
			for _, c := range strings.Fields(caps) {
				name, value, _ := strings.Cut(c, "=")
				adv.Capabilities[name] = value
			}
			if format, ok := adv.Capabilities["object-format"]; ok && format != "sha1" {
				return adv, errSHA256
			}
			line = head
		}
		hash, name, ok := strings.Cut(line, " ")
		if !ok || !isHash(hash) || name == "" {
			return adv, errors.New("malformed ref line")
		}
		if name == "capabilities^{}" && hash == zeroHash || name == ".have" || strings.HasSuffix(name, "^{}") || !strings.HasPrefix(name, "refs/") {
			continue
		}
		if hash == zeroHash {
			return adv, errors.New("a ref points at the zero hash")
		}
		if _, dup := adv.Refs[name]; dup {
			return adv, errors.New("a ref is advertised twice")
		}
		if adv.Refs[name] = hash; len(adv.Refs) > maxAdvertisedRefs {
			return adv, fmt.Errorf("more than %d refs", maxAdvertisedRefs)
		}
	}
	if err := scan.Err(); err != nil {
		return adv, err
	}
	return adv, io.ErrUnexpectedEOF
}

// isHash reports whether s is a full sha1 object name in lower case.
func isHash(s string) bool {
	if len(s) != len(zeroHash) {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
