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
	defaultHandshakeTimeout = 3 * time.Second
	defaultRefreshInterval  = 5 * time.Second
	defaultRetryInterval    = 30 * time.Second
	defaultBacklog          = 1024      // connections
	defaultMaxBulkMemory    = 256 << 20 // bytes
)

// Config selects the providers of a Dialer or a Listener, and tunes its connections. The zero
// value works, and nil is the zero value. It is copied at the first use.
type Config struct {
	// Providers are tried in this order. Without providers all connections use TCP.
	Providers []rdma.Provider
	// RequireRDMA refuses TCP: a dial fails with ErrNoRDMA instead of using TCP, and a
	// listener resets TCP connections.
	RequireRDMA bool
	// BusyPoll is how long Read and Write busy-poll before they sleep. 0 busy-polls during
	// bulk transfers only, for 100 µs; a negative value never. With a long time, such as an
	// hour, they do not sleep.
	BusyPoll time.Duration
	// RDMAThreshold is the largest Write, in bytes, that goes by control messages. A
	// larger Write goes by RDMA. 0 is the value of the provider.
	//
	// Source: [WSD §2.4 SO_RDMA_THRESHOLD_SIZE]
	RDMAThreshold int
	// ReceiveBuffers is the number of control buffers that receive, of BufferSize bytes
	// each. 0 is the default of the session protocol.
	ReceiveBuffers, BufferSize int
	// MaxBulkMemory bounds, in bytes, the memory for large data of all connections of a
	// Dialer, or of a Listener, together. A connection that offers copies of large
	// writes takes 1.5 MiB: over shm the copies of whole writes, over other providers
	// the copies of their ends. A connection that reads large data in small pieces takes
	// 64 KiB. Data that a peer offered before it closed takes its own size. A connection
	// without memory for large data moves the data in control messages, which is slower
	// and takes more CPU. Memory that a connection has not used for a second is freed. 0
	// is 256 MiB; a negative value is no bound.
	MaxBulkMemory int64
	// Linger is how long the peer has to take written data after Close. Close waits for
	// a part of that time, and the rest passes in the background. Then the connection is
	// reset. 0 is 3 s.
	Linger time.Duration
	// DisableRDMARead makes this side behave like one whose provider has no RDMA Read, so
	// that peers write to it.
	DisableRDMARead bool
	// HandshakeTimeout bounds the connect to one RDMA listener, or the accept of one
	// RDMA connection, up to the end of the negotiation. A dial spends at most half of
	// its remaining time on it, so that time is left for TCP. 0 is 3 s.
	HandshakeTimeout time.Duration
	// RetryInterval is how long a dialer does not try an RDMA listener that did not
	// answer in time, such as one behind a firewall that drops packets. 0 is 30 s; a
	// negative value tries the listener again at once.
	RetryInterval time.Duration
	// RefreshInterval is the age at which the table of subnets is read again. On Linux
	// the system notifies a Listener of address changes. A Dialer, and a Listener on
	// other systems, notices a change after up to RefreshInterval. 0 is 5 s.
	RefreshInterval time.Duration
	// RDMAAddr returns the address of the RDMA listener that belongs to a TCP address on
	// a fabric. Both sides must agree. On a fabric inside one host the result becomes
	// the name of the service. Nil is DefaultRDMAAddr.
	RDMAAddr func(fabric string, tcp netip.AddrPort) netip.AddrPort
	// Logger gets the outcome of attempts and of RDMA listeners; nil is silent.
	Logger *slog.Logger

	// hostPrefixes returns the addresses of this host with their subnets; nil asks the
	// system.
	hostPrefixes func() ([]netip.Prefix, error)
	// watch notifies of changes of the addresses, until stop is called. Nil asks the
	// system.
	watch func() (changed <-chan struct{}, stop func(), err error)
}

// withDefaults returns a copy with the defaults filled in.
func (c *Config) withDefaults() Config {
	var cfg Config
	if c != nil {
		cfg = *c
	}
	if cfg.HandshakeTimeout <= 0 {
		cfg.HandshakeTimeout = defaultHandshakeTimeout
	}
	if cfg.MaxBulkMemory == 0 {
		cfg.MaxBulkMemory = defaultMaxBulkMemory
	}
	if cfg.Linger <= 0 {
		cfg.Linger = stream.DefaultLinger
	}
	if cfg.RetryInterval == 0 {
		cfg.RetryInterval = defaultRetryInterval
	}
	if cfg.RefreshInterval <= 0 {
		cfg.RefreshInterval = defaultRefreshInterval
	}
	if cfg.RDMAAddr == nil {
		cfg.RDMAAddr = DefaultRDMAAddr
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

// The fabric whose listeners take TCP ports themselves, and the distance from the port of a
// TCP listener to the port of its RDMA listener. SMB (445) and SMB Direct (5445) have the
// same distance.
const (
	fabricOverTCP  = "iwarp"
	rdmaPortOffset = 5000
	firstUserPort  = 1024
)

// DefaultRDMAAddr returns the address of the RDMA listener that belongs to a TCP address,
// unless Config.RDMAAddr is set: the same address and port, except on the fabric "iwarp",
// whose ports are TCP ports. On "iwarp" the port is 5000 higher; a port above 65535
// continues at 1024.
//
// Source: [WSD §1]
func DefaultRDMAAddr(fabric string, tcp netip.AddrPort) netip.AddrPort {
	if fabric != fabricOverTCP {
		return tcp
	}
	port := int(tcp.Port()) + rdmaPortOffset
	if port > 65535 {
		port += firstUserPort - 65536
	}
	return netip.AddrPortFrom(tcp.Addr(), uint16(port))
}
