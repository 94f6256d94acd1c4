package rsock

import (
	"log/slog"
	"net/netip"
	"time"

	"lwio/rdma"
	"lwio/rsock/internal/stream"
)

// Defaults of Config and ListenConfig.
const (
	// DefaultNegotiation is the default of Config.Negotiation.
	DefaultNegotiation = 3 * time.Second
	// DefaultRefresh is the default of Config.Refresh.
	DefaultRefresh = 5 * time.Second
	// DefaultRetry is the default of Config.Retry.
	DefaultRetry = 30 * time.Second
	// DefaultBacklog is the default of ListenConfig.Backlog, in connections.
	DefaultBacklog = 1024
	// DefaultBulkMemory is the default of Config.BulkMemory, in bytes.
	DefaultBulkMemory = 256 << 20
	// DefaultLinger is the default of Config.Linger.
	DefaultLinger = stream.DefaultLinger
)

// Config says how a Dialer or a Listener chooses, and how its connections move data. The
// zero value works, and nil is the zero value. It is copied at the first use.
type Config struct {
	// Providers are tried in this order; none means TCP only.
	Providers []rdma.Provider
	// RequireRDMA refuses TCP: a dial fails with ErrNoRDMA where it would have fallen back,
	// and a listener resets the connections that come by TCP.
	RequireRDMA bool
	// Spin is how long Read and Write look for progress before they sleep; 0 is not at all,
	// a negative time always.
	Spin time.Duration
	// Threshold is the size in bytes above which a Write goes by RDMA; up to and including
	// it, it travels in control messages. 0 leaves it to the provider.
	//
	// Source: [WSD §2.4 SO_RDMA_THRESHOLD_SIZE]
	Threshold int
	// ReceiveBuffers is the number of control buffers that receive, of BufferSize bytes
	// each; 0 leaves them to the session protocol.
	ReceiveBuffers, BufferSize int
	// BulkMemory bounds, in bytes, the memory for large data that all connections of a Dialer,
	// or of a Listener, have together: 1.5 MiB for one that offers copies (over shm, and of
	// the ends of large writes over others), 64 KiB for one that reads large data by small
	// pieces, and what a peer that has closed still had on offer. A connection that gets
	// none moves its large data in control messages, which is slower and takes more CPU. What
	// a connection has not used for a second goes back. 0 is DefaultBulkMemory; a negative
	// number has no bound.
	BulkMemory int64
	// Linger is how long the peer has to take what was written before a Close, in the
	// background if need be; then the connection is broken off. 0 is DefaultLinger.
	Linger time.Duration
	// NoRead makes this side behave as one whose provider has no RDMA Read, so that peers
	// write to it.
	NoRead bool
	// Negotiation bounds connecting to one companion, or taking one connection from it, up
	// to the end of the session's negotiation. A dial spends at most half of the time it
	// has left on it, so that TCP gets its turn. 0 is DefaultNegotiation.
	Negotiation time.Duration
	// Retry is how long a dialer leaves a companion alone that did not answer in time, as one
	// behind a firewall that drops what it does not know, and goes on without it. 0 is
	// DefaultRetry; a negative time asks it again at once.
	Retry time.Duration
	// Refresh is how old the table of subnets may grow before the addresses of the host are
	// looked at again. On Linux a Listener hears of changes at once; elsewhere, and for a
	// Dialer, this is how late one may be noticed. 0 is DefaultRefresh.
	Refresh time.Duration
	// Companion gives the address of the companion of a TCP address on a fabric; both sides
	// must agree. A fabric inside one host names its service after that address. Nil is
	// CompanionAddr.
	Companion func(fabric string, tcp netip.AddrPort) netip.AddrPort
	// Logger gets what becomes of attempts and companions; nil is silent.
	Logger *slog.Logger

	// hostPrefixes are the addresses of this host with their subnets; nil asks the system.
	hostPrefixes func() ([]netip.Prefix, error)
	// watch tells of changes of them, until stop is called; nil asks the system.
	watch func() (changed <-chan struct{}, stop func(), err error)
}

// withDefaults is a copy with every default filled in.
func (c *Config) withDefaults() Config {
	var cfg Config
	if c != nil {
		cfg = *c
	}
	if cfg.Negotiation <= 0 {
		cfg.Negotiation = DefaultNegotiation
	}
	if cfg.BulkMemory == 0 {
		cfg.BulkMemory = DefaultBulkMemory
	}
	if cfg.Linger <= 0 {
		cfg.Linger = DefaultLinger
	}
	if cfg.Retry == 0 {
		cfg.Retry = DefaultRetry
	}
	if cfg.Refresh <= 0 {
		cfg.Refresh = DefaultRefresh
	}
	if cfg.Companion == nil {
		cfg.Companion = CompanionAddr
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.hostPrefixes == nil {
		cfg.hostPrefixes = hostPrefixes
	}
	if cfg.watch == nil {
		cfg.watch = watchAddresses
	}
	return cfg
}

// The fabric whose listeners take ports of TCP itself, and how far its companions are from
// the ports of TCP listeners: as far as SMB Direct's 5445 from SMB's 445.
const (
	fabricOverTCP   = "iwarp"
	companionOffset = 5000
	firstUserPort   = 1024
)

// CompanionAddr is where the companion of a TCP address is, unless Config.Companion says
// otherwise: at the same address and port, except on the fabric "iwarp", whose ports are
// those of TCP. There it is 5000 ports higher, and what would be above 65535 goes on at
// 1024.
//
// Source: [WSD §1]
func CompanionAddr(fabric string, tcp netip.AddrPort) netip.AddrPort {
	if fabric != fabricOverTCP {
		return tcp
	}
	port := int(tcp.Port()) + companionOffset
	if port > 65535 {
		port += firstUserPort - 65536
	}
	return netip.AddrPortFrom(tcp.Addr(), uint16(port))
}
