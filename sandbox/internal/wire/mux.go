package wire

import (
	"io"
	"time"

	"github.com/hashicorp/yamux"
)

// MuxConfig returns the settings of the multiplexer, the same at both ends. A peer that answers nothing for about three times
// keepalive is gone: the ping is sent every keepalive and may take twice that.
func MuxConfig(keepalive time.Duration) *yamux.Config {
	c := yamux.DefaultConfig()
	c.EnableKeepAlive = true
	c.KeepAliveInterval = keepalive
	c.ConnectionWriteTimeout = 2 * keepalive
	c.StreamOpenTimeout = 6 * keepalive
	c.StreamCloseTimeout = 6 * keepalive
	c.LogOutput = io.Discard
	return c
}
