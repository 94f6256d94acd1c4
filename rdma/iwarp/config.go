package iwarp

import (
	"context"
	"log/slog"
	"net"
	"time"

	"lwio/rdma/internal/softrdma"
	"lwio/rdma/iwarp/internal/frame"
)

// Name is the name of the fabric. [OP-38b]
const Name = "iwarp"

// CRCPolicy says whether a side asks for CRCs. They are on for a connection if
// either side asks.
//
// Source: [RFC 5044 §7.1]
type CRCPolicy uint8

// The policies.
const (
	// CRCOn asks for CRCs.
	CRCOn CRCPolicy = iota
	// CRCOff does without them if the peer does too. TCP's own checksum is then
	// all that guards the data.
	CRCOff
)

// Config tunes a provider. The zero value is fit for use.
type Config struct {
	// CRC is what this side asks for.
	CRC CRCPolicy
	// MaxULPDU is the most that is sent in one frame, headers of DDP included,
	// in bytes: 0 means 64768, and other values are clamped to 128..64768.
	MaxULPDU int
	// SegmentAtMSS lowers MaxULPDU to what fits one TCP segment of the
	// connection, where the system tells its size. It is off by default:
	// that each segment holds one whole frame is up to TCP, which a program cannot
	// tell where to cut, and on a path of 1500 bytes the many small frames cost up to
	// 40% of the rate. Switch it on for a peer whose adapter does better with them.
	//
	// Source: [RFC 5044 §4.1]
	SegmentAtMSS bool
	// Markers asks for markers in what this side receives, which costs time and has
	// no use but to test a peer. Those that a peer asks for are always sent.
	Markers bool
	// Revision is the MPA revision that this side begins with: 1, 2, or 0 for
	// revision 2 and then 1 if the peer drops that. Revision 2 carries the read
	// limits, lets the passive side send first, and makes Accept wait for the
	// peer's CompleteConnect. The passive side takes what comes.
	Revision int
	// RequestTimeout bounds how long a new connection may take to send its
	// request, WriteTimeout how long a start-up frame may take to leave; 0 means
	// 5 s for both.
	RequestTimeout, WriteTimeout time.Duration
	// ReplyTimeout bounds how long Connect waits for TCP and for the peer's
	// answer each, which includes the time that the peer's program takes to
	// decide; 0 means 10 s.
	ReplyTimeout time.Duration
	// ReadyTimeout bounds how long Accept waits for the peer's CompleteConnect;
	// 0 means 10 s.
	ReadyTimeout time.Duration
	// DrainTimeout bounds how long the end of a connection may take so that what
	// was sent last arrives; 0 means 500 ms.
	DrainTimeout time.Duration
	// MaxStartups bounds the connections of one listener that have not sent
	// their request yet; one more takes the place of the oldest of the host that
	// has most. It also bounds those of an adapter that wait for DrainTimeout
	// because they were refused or given up; one more is closed at once. 0 means
	// 256.
	MaxStartups int
	// MaxBacklog bounds the requests of one listener that wait to be taken and
	// clips the backlog of Listen; 0 means 1024.
	MaxBacklog int
	// Logger gets what is worth telling an operator; nil means silence.
	Logger *slog.Logger
	// Dial and Listen make TCP connections; nil means the net package's. They
	// may return any net.Conn, though only a *net.TCPConn is fast.
	Dial   func(ctx context.Context, local, remote *net.TCPAddr) (net.Conn, error)
	Listen func(ctx context.Context, local *net.TCPAddr) (net.Listener, error)
}

// withDefaults is a copy of cfg, which may be nil, with everything set.
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
	softrdma.SetListening(&c.MaxStartups, &c.MaxBacklog, &c.Logger)
	if c.Dial == nil {
		c.Dial = dialTCP
	}
	if c.Listen == nil {
		c.Listen = listenTCP
	}
	return c
}

// keepAlive lets TCP notice after half a minute that a peer is gone, although nobody
// sends.
//
// Source: [OP-94g]
func keepAlive() net.KeepAliveConfig {
	return net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}
}

func dialTCP(ctx context.Context, local, remote *net.TCPAddr) (net.Conn, error) {
	d := net.Dialer{KeepAliveConfig: keepAlive()}
	if local != nil {
		d.LocalAddr = local
	}
	return d.DialContext(ctx, "tcp", remote.String())
}

func listenTCP(ctx context.Context, local *net.TCPAddr) (net.Listener, error) {
	lc := net.ListenConfig{KeepAliveConfig: keepAlive()}
	return lc.Listen(ctx, "tcp", local.String())
}

// privateRoom is how much private data a request or a reply can carry.
func (c *Config) privateRoom() int {
	if c.Revision == 1 {
		return frame.MaxPrivateData
	}
	return frame.MaxPrivateData - frame.EnhancedSize
}
