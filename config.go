package lwio

import (
	"context"
	"log/slog"
	"net"
	"time"

	"lwio/rdma"
)

// The defaults and bounds of Config.
const (
	// DefaultCredits is how many messages in flight the client asks for.
	DefaultCredits = 128
	// DefaultSmallRead is up to how many bytes a read is copied out of a buffer
	// that is always registered. [LWIO §Read]
	DefaultSmallRead = 1<<10 - 1
	// DefaultMaxReadSize is how many bytes one read request asks for at most.
	DefaultMaxReadSize = 1 << 20
	// DefaultMaxRdmaWindowSize is how many bytes one RDMA write of the server may have.
	DefaultMaxRdmaWindowSize = 1 << 20
	// DefaultTimeout bounds a call that has no deadline of its own.
	DefaultTimeout = 30 * time.Second
	// DefaultReconnect is how long reads and writes wait for a lost connection to be
	// replaced.
	DefaultReconnect = 5 * time.Second

	maxCredits   = 4096
	maxSmallRead = 64 << 10
	minReadSize  = 4 << 10
	maxReadSize  = 64 << 20
	// maxConnections bounds Config.Connections: the server keeps twice as many key pairs
	// of a session.
	maxConnections = 8
	minWindow      = 512
	maxWindow      = 64 << 20
)

// Config says how Dial connects. Nil and the zero value work. Dial copies it.
type Config struct {
	// User, Password and Domain sign in to SMB. What the URL says about user and
	// password wins.
	User, Password, Domain string
	// Providers are the RDMA providers to try, best first; nil means Defaults().
	// They stay the caller's.
	Providers []rdma.Provider
	// RequireRDMA makes Dial fail, and later every read and write, if there is no
	// RDMA connection.
	RequireRDMA bool
	// SMBOnly leaves RDMA alone.
	SMBOnly bool
	// AllowMD5 accepts a server that signs only as the text says, without a key,
	// which proves nothing to whoever can listen. [OP-46b]
	AllowMD5 bool
	// Credits is how many messages in flight to ask the server for, 1 to 4096; 0
	// means DefaultCredits. The server grants as many or fewer, and may grant more
	// up to this number later.
	Credits int
	// Connections is how many RDMA connections to make, 1 to 8; 0 means 1. They share
	// the work, request by request, and large reads and writes use all; each has credits
	// of its own. They go to the addresses that the server lists for the best provider, in
	// turn. What the URL says wins.
	Connections int
	// AllProviders has the connections use all providers that both sides have, in turn,
	// and not the best alone.
	AllProviders bool
	// MaxReadSize bounds one read request in bytes, 4 KiB to 64 MiB; 0 means
	// DefaultMaxReadSize. The server's window bounds it too. [OP-60]
	MaxReadSize int
	// MaxRdmaWindowSize bounds one RDMA write of the server in bytes, 512 to 64 MiB; 0
	// means DefaultMaxRdmaWindowSize. A longer read takes several. [OP-60]
	MaxRdmaWindowSize int
	// Completion is how answers are waited for; the zero value is Adaptive. What the
	// URL says wins.
	Completion CompletionMode
	// SmallRead is up to how many bytes a read goes through a copy instead of a
	// registration, up to 64 KiB; 0 means DefaultSmallRead. [OP-91]
	SmallRead int
	// Timeout bounds each call that has no deadline of its own, Dial too; 0 means
	// DefaultTimeout.
	Timeout time.Duration
	// Reconnect is how long reads and writes wait, from the loss of an RDMA connection,
	// for another one to take its place. Those that were in flight then go on; after that
	// time writes that were not answered are uncertain, and the rest goes over SMB or, with
	// RequireRDMA, fails, until there is RDMA again: the client goes on trying. It does so
	// too for connections that Dial could not make, without that any call waits for them. 0
	// means DefaultReconnect; below 0 a lost connection is not replaced, and one that Dial
	// could not make is not tried again. [OP-112]
	Reconnect time.Duration
	// DialContext opens TCP connections for SMB; nil means a net.Dialer.
	DialContext func(ctx context.Context, network, addr string) (net.Conn, error)
	// Logger gets what happened to connections; nil is silent.
	Logger *slog.Logger
}

// withDefaults returns a copy with everything filled in and clamped.
func (c *Config) withDefaults() Config {
	var cfg Config
	if c != nil {
		cfg = *c
	}
	cfg.Credits = clamp(cfg.Credits, DefaultCredits, 1, maxCredits)
	cfg.Connections = clamp(cfg.Connections, 1, 1, maxConnections)
	cfg.MaxReadSize = clamp(cfg.MaxReadSize, DefaultMaxReadSize, minReadSize, maxReadSize)
	cfg.MaxRdmaWindowSize = clamp(cfg.MaxRdmaWindowSize, DefaultMaxRdmaWindowSize, minWindow, maxWindow)
	cfg.SmallRead = clamp(cfg.SmallRead, DefaultSmallRead, 1, maxSmallRead)
	if cfg.Timeout <= 0 {
		cfg.Timeout = DefaultTimeout
	}
	if cfg.Reconnect == 0 {
		cfg.Reconnect = DefaultReconnect
	}
	if cfg.DialContext == nil {
		cfg.DialContext = new(net.Dialer).DialContext
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Providers == nil {
		cfg.Providers = Defaults()
	}
	return cfg
}

func clamp(v, zero, low, high int) int {
	if v == 0 {
		v = zero
	}
	return min(max(v, low), high)
}

// bounded gives ctx the default deadline if it has none.
func (c *Config) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.Timeout)
}
