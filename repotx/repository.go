package repotx

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/net/idna"

	"github.com/rein-aharness/harness/evidence"
)

// Repository is one repository on one host. Two URLs that name the same repository give the same ID, whatever their scheme,
// case of host, default port, user, trailing slash or ".git". (A33)
type Repository struct {
	// URL is the address in its normal form; it never holds a password or, for http, a user.
	URL string `json:"url"`
	// ID is the canonical identity: "host/path", with ":port" after the host when it is not the scheme's own.
	ID string `json:"id"`
}

const maxURLBytes = 2048

var (
	hostPattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$`)
	userPattern = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)
	scpPattern  = regexp.MustCompile(`^(?:([A-Za-z0-9._-]+)@)?(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(.*)$`)
)

// schemes are words before a colon that nobody means as a host.
var schemes = map[string]bool{"http": true, "https": true, "ssh": true, "git": true, "file": true, "ftp": true}

// foldedHosts treat the path as case-insensitive, so that two spellings there are one repository.
var foldedHosts = map[string]bool{
	"github.com": true, "gitlab.com": true, "bitbucket.org": true, "codeberg.org": true, "gitea.com": true,
}

// Canonical reads a repository URL: https, ssh, the scp form "user@host:path", and http to a loopback address. It refuses
// an embedded credential, any other scheme, a query or fragment, and a path that is not plain. Errors never repeat the URL,
// which may hold a secret; they are *evidence.Failure with CodeRepositoryMalformed. (A33, CASES 31)
func Canonical(raw string) (Repository, error) {
	repo, err := normalize(raw)
	if err != nil {
		return Repository{}, evidence.Fail(evidence.StageEmit, evidence.CodeRepositoryMalformed, "", err)
	}
	return repo, nil
}

func normalize(raw string) (Repository, error) {
	if len(raw) > maxURLBytes {
		return Repository{}, fmt.Errorf("repository URL is longer than %d bytes", maxURLBytes)
	}
	for i := range len(raw) {
		if raw[i] <= ' ' || raw[i] >= 0x7f && raw[i] < 0xa0 || raw[i] == '\\' {
			return Repository{}, errors.New("repository URL holds a space, control character or backslash")
		}
	}
	if !strings.Contains(raw, "://") {
		m := scpPattern.FindStringSubmatch(raw)
		if m == nil || schemes[strings.ToLower(m[2])] {
			return Repository{}, errors.New("repository URL has no scheme and is not user@host:path")
		}
		user := ""
		if m[1] != "" {
			user = m[1] + "@"
		}
		// The path of the scp form is taken literally by git: '%', '?' and '#' have no meaning in it.
		raw = "ssh://" + user + m[2] + "/" + (&url.URL{Path: strings.TrimLeft(m[3], "/")}).EscapedPath()
	}
	u, err := url.Parse(raw)
	if err != nil {
		// The error of url.Parse repeats its input.
		return Repository{}, errors.New("repository URL does not parse")
	}
	if u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.HasSuffix(raw, "#") || u.Opaque != "" {
		return Repository{}, errors.New("repository URL has a query, a fragment or no host")
	}
	host, err := canonicalHost(u.Hostname())
	if err != nil {
		return Repository{}, err
	}
	scheme := strings.ToLower(u.Scheme)
	var ownPort string
	switch scheme {
	case "https":
		ownPort = "443"
	case "http":
		ownPort = "80"
		if !isLoopback(host) {
			return Repository{}, errors.New("repository URL is http to a host that is not loopback: its credential would cross the network in the clear")
		}
	case "ssh":
		ownPort = "22"
	default:
		return Repository{}, errors.New("repository URL is neither https, ssh nor http to loopback")
	}
	if u.User != nil {
		if _, has := u.User.Password(); has || scheme != "ssh" || u.User.Username() == "" {
			return Repository{}, errors.New("repository URL holds a credential")
		}
		if !userPattern.MatchString(u.User.Username()) {
			return Repository{}, errors.New("repository URL has a user that is not plain")
		}
	}
	port := u.Port()
	if strings.HasSuffix(u.Host, ":") {
		return Repository{}, errors.New("repository URL has an empty port")
	}
	if port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return Repository{}, errors.New("repository URL has a port that is not one")
		}
		if port = strconv.FormatUint(n, 10); port == ownPort {
			port = ""
		}
	}
	clean, err := canonicalPath(u)
	if err != nil {
		return Repository{}, err
	}

	if port != "" {
		host += ":" + port
	}
	out := url.URL{Scheme: scheme, User: u.User, Host: host, Path: "/" + clean}
	id := strings.TrimSuffix(clean, ".git")
	if foldedHosts[host] {
		id = strings.ToLower(id)
	}
	return Repository{URL: out.String(), ID: host + "/" + id}, nil
}

// canonicalHost lowers a name, turns it into its ASCII form and drops the root's dot; an address takes its shortest form.
func canonicalHost(host string) (string, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		if addr.Zone() != "" {
			return "", errors.New("repository URL has an address with a zone")
		}
		if addr = addr.Unmap(); addr.Is6() {
			return "[" + addr.String() + "]", nil
		}
		return addr.String(), nil
	}
	name, err := idna.Lookup.ToASCII(strings.TrimSuffix(host, "."))
	if err != nil || name == "" {
		return "", errors.New("repository URL has a host that is not a name")
	}
	// A name that maps to another name or to an address would have two identities.
	again, err := idna.Lookup.ToASCII(name)
	if _, addr := netip.ParseAddr(name); err != nil || again != name || addr == nil || !hostPattern.MatchString(name) {
		return "", errors.New("repository URL has a host that is not in its normal form")
	}
	return name, nil
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.IsLoopback()
}

// canonicalPath gives the decoded path without leading and trailing slashes. An encoded slash or a dot segment would let two
// parties read one URL as two repositories, so both are refused.
func canonicalPath(u *url.URL) (string, error) {
	if esc := strings.ToLower(u.EscapedPath()); strings.Contains(esc, "%2f") || strings.Contains(esc, "%00") {
		return "", errors.New("repository URL has an encoded slash or NUL in its path")
	}
	p := strings.Trim(u.Path, "/")
	for strings.Contains(p, "//") {
		p = strings.ReplaceAll(p, "//", "/")
	}
	if err := checkPath(p); err != nil {
		return "", errors.New("repository URL has a path that is not plain")
	}
	if path.Clean(p) != p || strings.ContainsRune(p, '\\') || p == ".git" || strings.HasSuffix(p, "/.git") {
		return "", errors.New("repository URL has a path that is not plain")
	}
	return p, nil
}
