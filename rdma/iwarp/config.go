package iwarp

import (
	"context"
	"log/slog"
	"net"
	"time"

	"lwio/internal/host"
	"lwio/rdma/internal/softrdma"
	"lwio/rdma/iwarp/internal/frame"
)

// Name is the name of the fabric. [OP-38b]
const Name = "iwarp"

// CRCPolicy states whether a side wants CRCs. A connection uses CRCs if either side asks
// for them.
//
// Source: [RFC 5044 §7.1]
type CRCPolicy uint8

// The policies.
const (
	// CRCOn asks for CRCs.
	CRCOn CRCPolicy = iota
	// CRCOff uses no CRCs if the peer does not ask for them either. Only TCP's checksum
	// then protects the data.
	CRCOff
)

// Config configures a provider. The zero value works.
type Config struct {
	// CRC states whether this side wants CRCs.
	CRC CRCPolicy
	// MaxULPDU bounds a sent frame, in bytes, including the headers of DDP. 0 means
	// 64768; other values are clamped to 128..64768.
	MaxULPDU int
	// SegmentAtMSS lowers MaxULPDU so that a frame fits into one TCP segment of the
	// connection, if the system reports the segment size. It is off by default: TCP
	// decides where segments end, and on a path of 1500 bytes the many small frames cost
	// up to 40% of the rate. Use it for a peer whose adapter is faster with such frames.
	//
	// Source: [RFC 5044 §4.5]
	SegmentAtMSS bool
	// Markers asks for markers in the stream that this side receives. Markers cost time
	// and serve only to test a peer. Markers that a peer asks for are always sent.
	Markers bool
	// Revision is the MPA revision that the active side begins with: 1, 2, or 0. 0 means
	// revision 2, and then revision 1 if the peer drops the connection. Revision 2
	// carries the read limits, lets the passive side send first, and makes Accept wait
	// for the peer's CompleteConnect. The passive side accepts both revisions.
	Revision int
	// RequestTimeout bounds the time until a new connection has sent its request.
	// WriteTimeout bounds the time to write a start-up frame. 0 means 5 s for both.
	RequestTimeout, WriteTimeout time.Duration
	// ReplyTimeout bounds two waits of Connect: for the TCP connection, and for the
	// peer's answer. The second wait includes the time in which the peer's program
	// decides. 0 means 10 s.
	ReplyTimeout time.Duration
	// ReadyTimeout bounds the wait of Accept for the peer's CompleteConnect. 0 means 10
	// s.
	ReadyTimeout time.Duration
	// DrainTimeout bounds the end of a connection, during which the last data is
	// delivered. 0 means 500 ms.
	DrainTimeout time.Duration
	// KeepAlive is the time after which TCP ends the connection of a peer that does not respond: to
	// probes of an idle connection, or to data. A peer that takes no data for that time counts too. 0
	// means 10 s, at least 1 s; below 0 there is no check.
	KeepAlive time.Duration
	// MaxStartups bounds the connections of one listener that have not sent their request
	// yet, or whose refusal is being sent. A further connection replaces the oldest
	// connection of the busiest host: that with the largest product of the number of its
	// connections and the age of the oldest. See also rdma.KnownPeersListener. MaxStartups also
	// bounds the refused and abandoned connections of an adapter that wait for DrainTimeout; a
	// further one is closed at once. 0 means 256.
	MaxStartups int
	// MaxBacklog bounds the requests of one listener that wait for a connector, and the
	// backlog of Listen. A further request replaces the oldest request of the busiest host,
	// which is refused. 0 means 1024.
	MaxBacklog int
	// Logger receives messages for operators; nil discards them.
	Logger *slog.Logger
	// Dial and Listen make TCP connections; nil means the functions of package net. They
	// may return any net.Conn, but only a *net.TCPConn is fast.
	Dial   func(ctx context.Context, local, remote *net.TCPAddr) (net.Conn, error)
	Listen func(ctx context.Context, local *net.TCPAddr) (net.Listener, error)
}

// withDefaults returns a copy of cfg, which may be nil, with all fields set.
func withDefaults(cfg *Config) Config {
	var c Config
	if cfg != nil {
		c = *cfg
	}
	if c.MaxULPDU == 0 {
		c.MaxULPDU = frame.MaxULPDU
	}
	c.MaxULPDU = min(max(c.MaxULPDU, frame.MinULPDU), frame.MaxULPDU)
	softrdma.SetDefault(&c.RequestTimeout, 5*time.Second)
	softrdma.SetDefault(&c.WriteTimeout, 5*time.Second)
	softrdma.SetDefault(&c.ReplyTimeout, 10*time.Second)
	softrdma.SetDefault(&c.ReadyTimeout, 10*time.Second)
	softrdma.SetDefault(&c.DrainTimeout, 500*time.Millisecond)
	if c.KeepAlive == 0 {
		c.KeepAlive = 10 * time.Second
	}
	softrdma.SetListening(&c.MaxStartups, &c.MaxBacklog, &c.Logger)
	if c.Dial == nil {
		c.Dial = dialTCP
	}
	if c.Listen == nil {
		c.Listen = listenTCP
	}
	return c
}

// keepAlive makes TCP end a connection whose peer does not respond.
//
// Source: [OP-94g]
func (c *Config) keepAlive(nc net.Conn) {
	if c.KeepAlive > 0 {
		host.KeepAlive(nc, c.KeepAlive)
	}
}

func dialTCP(ctx context.Context, local, remote *net.TCPAddr) (net.Conn, error) {
	d := net.Dialer{KeepAlive: -1} // Config.keepAlive sets it
	if local != nil {
		d.LocalAddr = local
	}
	return d.DialContext(ctx, "tcp", remote.String())
}

func listenTCP(ctx context.Context, local *net.TCPAddr) (net.Listener, error) {
	lc := net.ListenConfig{KeepAlive: -1} // Config.keepAlive sets it
	return lc.Listen(ctx, "tcp", local.String())
}

// privateRoom returns the maximum size of private data in a request or a reply.
func (c *Config) privateRoom() int {
	if c.Revision == 1 {
		return frame.MaxPrivateData
	}
	return frame.MaxPrivateData - frame.EnhancedSize
}
