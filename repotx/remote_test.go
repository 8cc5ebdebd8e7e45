package repotx

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/rein-aharness/harness/evidence"
)

func TestResolveRefTellsWhatIsMissing(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	store := newStore(t)
	ctx := context.Background()
	repo := s.repository("full", map[string]string{"a": "a"})
	head, err := repo.remote(store).ResolveRef(ctx, main)
	require.NoError(t, err)
	require.Equal(t, repo.head, head)
	for name, row := range map[string]struct {
		remote *Remote
		ref    string
		code   evidence.Code
	}{
		"no such branch": {repo.remote(store), "refs/heads/other", evidence.CodeBaselineUnresolved},
		"not a branch":   {repo.remote(store), "HEAD", evidence.CodeRefNotGranted},
		"empty":          {s.repository("empty", nil).remote(store), main, evidence.CodeRepositoryEmpty},
		"no repository":  {(&remoteRepo{server: s, name: "absent"}).remote(store), main, evidence.CodeRemoteDenied},
		"bad credential": {withAuth(t, store, repo, "wrong"), main, evidence.CodeRemoteDenied},
		"nobody there":   {store.Remote(Repository{URL: "http://127.0.0.1:1/p", ID: "127.0.0.1:1/p"}, Auth{}), main, evidence.CodeRemoteUnreachable},
	} {
		_, err := row.remote.ResolveRef(ctx, row.ref)
		require.Equal(t, row.code, evidence.CodeOf(err), "%s: %v", name, err)
		require.NotContains(t, err.Error(), testPassword)
	}
}

func withAuth(t *testing.T, store *Store, repo *remoteRepo, password string) *Remote {
	t.Helper()
	auth, err := NewBasicAuth(testUser, password)
	require.NoError(t, err)
	return store.Remote(repo.remote(store).repo, auth)
}

// A baseline that is no tip any more can be had only from a remote that allows it.
func TestFetchOfACommitThatIsNoTip(t *testing.T) {
	t.Parallel()
	repo := project(t)
	first := repo.head
	repo.commit("main", map[string]string{"a.txt": "more\n"})
	_, err := repo.remote(newStore(t)).Fetch(context.Background(), first)
	require.Equal(t, evidence.CodeBaselineMoved, evidence.CodeOf(err))
	repo.git(repo.dir, "config", "uploadpack.allowReachableSHA1InWant", "true")
	b, err := repo.remote(newStore(t)).Fetch(context.Background(), first)
	require.NoError(t, err)
	require.Equal(t, first, b.Commit)
	require.NoError(t, b.Close())
}

// The workspace is what git stores, byte for byte.
func TestWriteTarGivesEveryFile(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("long/", 60) + "name"
	files := map[string]string{
		"a.txt": "crlf\r\n", "bin": "a\x00b", "run": "#!x\n", "l": "->a.txt", "dir/e": "", "sp ace/ü\n": "x", long: "y", "\xffraw": "z", ".gitattributes": "* text eol=lf\n",
	}
	repo := newServer(t).repository("project", map[string]string{"big": strings.Repeat("0123456789", 300_000)})
	repo.git(repo.work, "config", "core.autocrlf", "false")
	delete(files, ".gitattributes")
	repo.head = repo.commit("main", files)
	b := baselineOf(t, repo)
	var buf bytes.Buffer
	require.NoError(t, b.WriteTar(context.Background(), &buf))
	got := map[string]string{}
	tr := tar.NewReader(&buf)
	for {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		data, err := io.ReadAll(tr)
		require.NoError(t, err)
		switch h.Typeflag {
		case tar.TypeSymlink:
			got[h.Name] = "->" + h.Linkname
		case tar.TypeReg:
			got[h.Name] = string(data)
			require.Equal(t, h.Name == "run", h.Mode == 0o755, h.Name)
		default:
			require.EqualValues(t, tar.TypeDir, h.Typeflag)
		}
	}
	files["big"] = strings.Repeat("0123456789", 300_000)
	require.Equal(t, files, got)
}

// CASES 21, 31: nothing that formats, encodes or logs an Auth shows its secret.
func TestAuthShowsNoSecret(t *testing.T) {
	t.Parallel()
	basic, err := NewBasicAuth("user", "hunter2-secret")
	require.NoError(t, err)
	_, private := sshKey(t)
	key, err := NewSSHKeyAuth("git", private)
	require.NoError(t, err)
	for _, a := range []Auth{basic, key} {
		holder := struct {
			A Auth
			a Auth
			p *Auth
		}{a, a, &a}
		var logged bytes.Buffer
		slog.New(slog.NewTextHandler(&logged, nil)).Info("x", "auth", a, "holder", holder)
		encoded, err := json.Marshal(holder)
		require.NoError(t, err)
		all := fmt.Sprintf("%v %+v %#v %s %q %v %+v %#v %s %s", a, a, a, a, a, holder, holder, holder, encoded, logged.String())
		require.NotContains(t, all, "hunter2")
		require.NotContains(t, all, "68756e74657232")
		require.NotContains(t, all, strings.Split(string(private), "\n")[2])
	}
	for _, bad := range [][2]string{{"", "x"}, {"x", ""}, {"a:b", "x"}, {"a", "x\ny"}} {
		_, err := NewBasicAuth(bad[0], bad[1])
		require.Error(t, err)
	}
	_, err = NewSSHKeyAuth("git", []byte("not a key hunter2"))
	require.Error(t, err)
	require.NotContains(t, err.Error(), "hunter2")
}

// A remote behind a private authority is reached only when the authority is given; a redirect is never followed.
func TestHTTPSNeedsTheAuthorityAndFollowsNoRedirect(t *testing.T) {
	t.Parallel()
	repo := project(t)
	secure := httptest.NewUnstartedServer(repo.server.http.Config.Handler)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // it says that the client refuses the certificate, as it should
	secure.StartTLS()
	defer secure.Close()
	store := newStore(t)
	auth, err := NewBasicAuth(testUser, testPassword)
	require.NoError(t, err)
	canonical, err := Canonical(secure.URL + "/project.git")
	require.NoError(t, err)
	_, err = store.Remote(canonical, auth).Advertise(context.Background())
	require.Equal(t, evidence.CodeRemoteUnreachable, evidence.CodeOf(err))
	require.ErrorContains(t, err, "certificate")
	auth.CA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})
	adv, err := store.Remote(canonical, auth).Advertise(context.Background())
	require.NoError(t, err)
	require.Equal(t, repo.head, adv.Refs[main])
	require.NoError(t, adv.RequireFence())

	reached := false
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer other.Close()
	repo.intercept(func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL+r.URL.Path, http.StatusFound)
		})
	})
	_, err = repo.remote(store).Advertise(context.Background())
	require.ErrorContains(t, err, "redirect")
	require.False(t, reached)
}

// A remote that accepts and then says nothing ends with the context's cause.
func TestSilentRemoteEndsWithTheContext(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var open []net.Conn
	var mu sync.Mutex
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, c)
			mu.Unlock()
		}
	}()
	defer func() {
		listener.Close()
		<-done
		for _, c := range open {
			c.Close()
		}
	}()
	_, private := sshKey(t)
	key, err := NewSSHKeyAuth("git", private)
	require.NoError(t, err)
	public, err := ssh.ParsePrivateKey(private)
	require.NoError(t, err)
	key.KnownHosts = []byte(knownhosts.Line([]string{knownhosts.Normalize(listener.Addr().String())}, public.PublicKey()) + "\n")
	for scheme, auth := range map[string]Auth{"http": {}, "ssh": key} {
		ctx, cancel := context.WithTimeoutCause(context.Background(), 200*time.Millisecond, errLeaseOver)
		repo, err := Canonical(scheme + "://" + listener.Addr().String() + "/p")
		require.NoError(t, err)
		_, err = newStore(t).Remote(repo, auth).Advertise(ctx)
		cancel()
		require.ErrorIs(t, err, errLeaseOver, scheme)
		require.Equal(t, evidence.CodeRemoteUnreachable, evidence.CodeOf(err))
	}
}

var errLeaseOver = fmt.Errorf("the lease is over")

func sshKey(t testing.TB) (ssh.Signer, []byte) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	block, err := ssh.MarshalPrivateKey(private, "")
	require.NoError(t, err)
	signer, err := ssh.NewSignerFromKey(private)
	require.NoError(t, err)
	return signer, pem.EncodeToMemory(block)
}

// sshServer serves the repositories of a server over ssh to one key and to certificates of one authority.
func sshServer(t *testing.T, s *server, client ssh.PublicKey, authority ssh.PublicKey) (address string, host ssh.Signer) {
	t.Helper()
	host, _ = sshKey(t)
	checker := &ssh.CertChecker{
		IsUserAuthority: func(k ssh.PublicKey) bool { return bytes.Equal(k.Marshal(), authority.Marshal()) },
		UserKeyFallback: func(_ ssh.ConnMetadata, k ssh.PublicKey) (*ssh.Permissions, error) {
			if bytes.Equal(k.Marshal(), client.Marshal()) {
				return nil, nil
			}
			return nil, fmt.Errorf("unknown key")
		},
	}
	config := &ssh.ServerConfig{PublicKeyCallback: checker.Authenticate}
	config.AddHostKey(host)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { serveSSH(s, conn, config) })
		}
	})
	t.Cleanup(func() { listener.Close(); wg.Wait() })
	return listener.Addr().String(), host
}

func serveSSH(s *server, conn net.Conn, config *ssh.ServerConfig) {
	defer conn.Close()
	_, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for c := range channels {
		channel, requests, err := c.Accept()
		if err != nil {
			return
		}
		for r := range requests {
			if r.Type != "exec" {
				r.Reply(false, nil)
				continue
			}
			r.Reply(true, nil)
			line := string(r.Payload[4:])
			program, quoted, _ := strings.Cut(line, " ")
			cmd := exec.Command("git", strings.TrimPrefix(program, "git-"), s.root+strings.Trim(quoted, "'"))
			cmd.Stdin, cmd.Stdout = nil, channel
			in, _ := cmd.StdinPipe()
			if cmd.Start() == nil {
				go func() { io.Copy(in, channel); in.Close() }()
				cmd.Wait()
			}
			channel.SendRequest("exit-status", false, []byte{0, 0, 0, 0})
			channel.Close()
		}
	}
}

// The whole transaction over ssh, with a key and with a certificate; an unknown host or key is refused.
func TestTransactionOverSSH(t *testing.T) {
	t.Parallel()
	repo := project(t)
	client, clientPEM := sshKey(t)
	authority, _ := sshKey(t)
	address, host := sshServer(t, repo.server, client.PublicKey(), authority.PublicKey())
	hosts := []byte(knownhosts.Line([]string{knownhosts.Normalize(address)}, host.PublicKey()) + "\n")

	certified, certifiedPEM := sshKey(t)
	cert := &ssh.Certificate{Key: certified.PublicKey(), CertType: ssh.UserCert, ValidPrincipals: []string{"git"}, ValidBefore: ssh.CertTimeInfinity}
	require.NoError(t, cert.SignCert(rand.Reader, authority))
	byKey, err := NewSSHKeyAuth("git", clientPEM)
	require.NoError(t, err)
	byCert, err := NewSSHCertificateAuth("git", certifiedPEM, ssh.MarshalAuthorizedKey(cert))
	require.NoError(t, err)
	_, err = NewSSHCertificateAuth("git", clientPEM, ssh.MarshalAuthorizedKey(cert))
	require.Error(t, err, "another key's certificate")

	canonical, err := Canonical("ssh://git@" + address + "/project.git")
	require.NoError(t, err)
	store, err := Open(context.Background(), Config{CacheDir: t.TempDir(), KnownHosts: hosts})
	require.NoError(t, err)
	ctx := context.Background()
	for i, auth := range []Auth{byKey, byCert} {
		remote := store.Remote(canonical, auth)
		baseline, err := remote.ResolveRef(ctx, main)
		require.NoError(t, err)
		run := fmt.Sprint("run-", i)
		fence, err := NewFence(FenceID{Run: run, Epoch: 1, Owner: "w/n"}, baseline)
		require.NoError(t, err)
		require.NoError(t, remote.CreateFence(ctx, fence))
		b, err := remote.Fetch(ctx, baseline)
		require.NoError(t, err)
		cs := collect(t, b, map[string]*string{"a.txt": text(run)})
		c, err := b.Build(ctx, cs, testAuthor, "Change", nil, testWhen)
		require.NoError(t, err)
		require.NoError(t, b.Close())
		in := Intent{Run: run, Epoch: 1, Fence: fence, TargetRef: main, Old: baseline, Commit: c.Hash, BaseRef: main, Base: baseline, Pack: c.Pack, PackDigest: c.PackDigest}
		answer, err := remote.Publish(ctx, in)
		require.NoError(t, err)
		require.True(t, answer.Complete(), "%v", answer.Fault())
		repo.git(repo.work, "fetch", "-q", repo.dir, "main")
		repo.git(repo.work, "reset", "-q", "--hard", "FETCH_HEAD")
		repo.commit("main", map[string]string{"later.txt": run})
		seen, err := remote.ReadBack(ctx, in)
		require.NoError(t, err)
		require.True(t, seen.Confirms(in), "%+v", seen)
	}

	stranger, strangerPEM := sshKey(t)
	unknownKey, err := NewSSHKeyAuth("git", strangerPEM)
	require.NoError(t, err)
	_, err = store.Remote(canonical, unknownKey).Advertise(ctx)
	require.Equal(t, evidence.CodeRemoteDenied, evidence.CodeOf(err), "%v", err)
	otherHost := byKey
	otherHost.KnownHosts = []byte(knownhosts.Line([]string{knownhosts.Normalize(address)}, stranger.PublicKey()) + "\n")
	_, err = store.Remote(canonical, otherHost).Advertise(ctx)
	require.Equal(t, evidence.CodeRemoteUnreachable, evidence.CodeOf(err), "%v", err)
	_, err = newStore(t).Remote(canonical, byKey).Advertise(ctx)
	require.ErrorContains(t, err, "known hosts")
	absent, err := Canonical("ssh://git@" + address + "/absent.git")
	require.NoError(t, err)
	_, err = store.Remote(absent, byKey).Advertise(ctx)
	require.Equal(t, evidence.CodeRemoteDenied, evidence.CodeOf(err), "%v", err)
}

func TestAdvertisementIsReadStrictly(t *testing.T) {
	t.Parallel()
	hash := strings.Repeat("a", 40)
	line := func(s string) string { return fmt.Sprintf("%04x%s", len(s)+4, s) }
	good := line("# service=git-receive-pack\n") + "0000" + line(hash+" refs/heads/main\x00report-status atomic agent=git/2\n") + line(hash+" .have\n") + line(hash+" refs/tags/v^{}\n") + "0000"
	adv, err := readAdvertisement(strings.NewReader(good))
	require.NoError(t, err)
	require.Equal(t, map[string]string{main: hash}, adv.Refs)
	require.True(t, adv.Fenceable())
	require.Equal(t, "git/2", adv.Capabilities["agent"])
	adv, err = readAdvertisement(strings.NewReader(line(zeroHash+" capabilities^{}\x00atomic") + "0000"))
	require.NoError(t, err)
	require.Empty(t, adv.Refs)
	for name, bad := range map[string]string{
		"empty": "", "cut": good[:len(good)-4], "cut in a line": good[:90], "not pkt-lines": "<html>", "no capabilities": line(hash+" refs/heads/main") + "0000",
		"bad hash": line("zz"+hash[2:]+" refs/heads/main\x00atomic") + "0000", "capital hash": line(strings.ToUpper(hash)+" refs/heads/main\x00atomic") + "0000",
		"zero hash": line(zeroHash+" refs/heads/main\x00atomic") + "0000", "twice": line(hash+" refs/heads/a\x00atomic") + line(hash+" refs/heads/a") + "0000",
		"error": line("ERR access denied"), "sha256": line(hash+" refs/heads/a\x00object-format=sha256") + "0000", "version 2": line("version 2\n") + "0000",
	} {
		_, err := readAdvertisement(strings.NewReader(bad))
		require.Error(t, err, name)
	}
}

func FuzzReadAdvertisement(f *testing.F) {
	hash := strings.Repeat("a", 40)
	f.Add([]byte("001f# service=git-receive-pack\n0000003f" + hash + " refs/heads/m\x00atomic\n0000"))
	f.Add([]byte("0000"))
	f.Add([]byte("0010ERR denied"))
	f.Fuzz(func(t *testing.T, data []byte) {
		adv, err := readAdvertisement(bytes.NewReader(data))
		if err != nil {
			return
		}
		for ref, value := range adv.Refs {
			require.True(t, isHash(value) && value != zeroHash && strings.HasPrefix(ref, "refs/"))
		}
	})
}

func FuzzReadReport(f *testing.F) {
	f.Add([]byte("000eunpack ok\n0019ok refs/heads/main\n0000"))
	f.Add([]byte("000eunpack ok\n0020ng refs/heads/main locked\n0000"))
	f.Add([]byte(""))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, banded := range []bool{false, true} {
			a := Answer{Sent: true, Status: map[string]string{}, wanted: []string{"refs/heads/main", "refs/harness/fence/x"}}
			a.Err = a.read(bytes.NewReader(data), banded)
			if a.Complete() {
				require.Equal(t, "ok", a.Status["refs/heads/main"])
				require.Equal(t, "ok", a.Status["refs/harness/fence/x"])
			} else {
				require.Error(t, a.Fault())
			}
		}
	})
}
