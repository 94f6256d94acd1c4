package lwio

import (
	"context"
	"log/slog"
	"net"
	"time"

	"lwio/internal/client/base"
	"lwio/rdma"
)

// The defaults of Config.
const (
	// DefaultCredits is how many messages in flight the client asks for.
	DefaultCredits = base.DefaultCredits
	// DefaultSmallRead is up to how many bytes a read is copied out of a buffer
	// that is always registered. [LWIO §Read]
	DefaultSmallRead = base.DefaultSmallRead
	// DefaultMaxReadSize is how many bytes one read request asks for at most.
	DefaultMaxReadSize = base.DefaultMaxReadSize
	// DefaultMaxRdmaWindowSize is how many bytes one RDMA write of the server may have.
	DefaultMaxRdmaWindowSize = base.DefaultMaxRdmaWindowSize
	// DefaultTimeout bounds a call that has no deadline of its own.
	DefaultTimeout = base.DefaultTimeout
	// DefaultReconnect is how long reads and writes wait for a lost connection to be
	// replaced.
	DefaultReconnect = base.DefaultReconnect
)

// Config says how Dial connects. Nil and the zero value work. Dial copies it.
type Config struct {
	// User, Password and Domain sign in to SMB. The URL's user and
	// password wins.
	User, Password, Domain string
	// Providers are the RDMA providers to try, best first; nil means DefaultProviders().
	// They stay the caller's.
	Providers []rdma.Provider
	// RequireRDMA makes Dial fail, and later every read and write, if there is no
	// RDMA connection.
	RequireRDMA bool
	// SMBOnly leaves RDMA alone.
	SMBOnly bool
	// AllowMD5 accepts a server that signs only as the text says, without a key,
	// which proves nothing to a listener. [OP-46b]
	AllowMD5 bool
	// Credits is how many messages in flight to ask the server for, 1 to 4096; 0
	// means DefaultCredits. The server grants as many or fewer, and may grant more
	// up to this number later.
	Credits int
	// Connections is how many RDMA connections to make, 1 to 8; 0 means 1. They share
	// the work, request by request, and large reads and writes use all; each has credits
	// of its own. They go to the addresses that the server lists for the best provider, in
	// turn. The value of the URL wins.
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
	// Completion is how answers are waited for; the zero value is Adaptive. The
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
	// Logger gets the events of connections; nil is silent.
	Logger *slog.Logger
}
