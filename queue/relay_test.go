package queue_test

import (
	"bytes"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// relay stands between a store and the database. It can be cut, and it can be deafened.
type relay struct {
	listener net.Listener
	to       string
	loops    sync.WaitGroup

	mu      sync.Mutex
	cut     bool
	deaf    bool
	conns   map[net.Conn]bool
	listens map[net.Conn]bool // those to the database on which notifications were asked for
}

// throughRelay gives the URL of the database by way of a relay.
func throughRelay(t *testing.T, database string) (*relay, string) {
	t.Helper()
	u, err := url.Parse(database)
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r := &relay{listener: listener, to: u.Host, conns: map[net.Conn]bool{}, listens: map[net.Conn]bool{}}
	r.loops.Go(r.accept)
	t.Cleanup(func() {
		listener.Close()
		r.set(true)
		r.loops.Wait()
	})
	u.Host = listener.Addr().String()
	return r, u.String()
}

func (r *relay) accept() {
	for {
		in, err := r.listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", r.to)
		if err != nil || !r.hold(in, out) {
			in.Close()
			if out != nil {
				out.Close()
			}
			continue
		}
		for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
			r.loops.Go(func() {
				r.carry(pair[0], pair[1])
				pair[0].Close()
				pair[1].Close()
			})
		}
	}
}

// carry copies until one end is closed.
func (r *relay) carry(to, from net.Conn) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		r.mu.Lock()
		r.listens[to] = r.listens[to] || bytes.Contains(buffer[:n], []byte("LISTEN "))
		kept := r.deaf && r.listens[from]
		r.mu.Unlock()
		if kept {
			continue
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func (r *relay) hold(conns ...net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range conns {
		r.conns[c] = true
	}
	return !r.cut
}

// set cuts all connections and refuses new ones, or lets them through again.
func (r *relay) set(cut bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = cut
	for c := range r.conns {
		c.Close()
	}
	clear(r.conns)
}

// deafen lets nothing more come back on connections that listen, which look well and silent from then on. It reports whether
// there is such a connection yet.
func (r *relay) deafen() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, listens := range r.listens {
		r.deaf = r.deaf || listens
	}
	return r.deaf
}
