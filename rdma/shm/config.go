package shm

import (
	"log/slog"
	"net"
	"time"

	"lwio/internal/host"
	"lwio/rdma/internal/softrdma"
	"lwio/rdma/shm/internal/ring"
)

// Name is the name of the fabric. [OP-38b]
const Name = "shm"

// UnmappedUID stands for every user that has no number in the user namespace of this process.
// It is the number of no user.
const UnmappedUID = 1<<32 - 1

// Config configures a provider. The zero value is ready to use.
type Config struct {
	// AllowUID reports whether a process of the user uid may be a peer, on both sides of
	// a connection. The number comes from the kernel. It is UnmappedUID for all users
	// without a number in the user namespace of this process. nil allows the user of this
	// process and root. Many goroutines call it.
	AllowUID func(uid uint32) bool
	// RingSize is the size in bytes of the ring to a peer, which bounds the bytes in
	// flight. 0 means 256 KiB; other values are rounded up to a power of two within 64
	// KiB..16 MiB.
	RingSize int
	// MaxPeerMemory bounds the memory of one peer that a connection maps, in bytes.
	// Further memory is accessed through the ring. 0 means 4 GiB.
	MaxPeerMemory int64
	// MaxMappedMemory bounds the mapped memory of all peers of the provider, in bytes. If
	// a peer punches holes into its memory, the kernel charges this process for the pages
	// that it writes there. 0 means half of the host's memory.
	MaxMappedMemory int64
	// BlockingWait makes CompletionQueue.Wait on a queue of one connection block its
	// thread instead of sleeping in the network poller. The wake-up is slightly faster,
	// and every such call costs a thread.
	BlockingWait bool
	// RequestTimeout bounds the time until a new connection has sent its request. 0 means
	// 5 s.
	RequestTimeout time.Duration
	// ReplyTimeout bounds the time that Connect waits for the peer's answer, including
	// the decision of the peer's program. 0 means 10 s.
	ReplyTimeout time.Duration
	// ReadyTimeout bounds the time that Accept waits for the peer's CompleteConnect. 0
	// means 10 s.
	ReadyTimeout time.Duration
	// DrainTimeout bounds two waits for the peer: at the end of a connection, and at the
	// close of a region that the peer is writing. 0 means 500 ms.
	DrainTimeout time.Duration
	// MaxStartups bounds the connections of one listener that have not sent their request
	// yet, or whose refusal is being sent. A further connection evicts the oldest. 0 means
	// 256.
	MaxStartups int
	// MaxBacklog bounds the pending requests of one listener, and the backlog of Listen.
	// A further request replaces the oldest one, which is refused. 0 means 1024.
	MaxBacklog int
	// Listen returns the listening socket of a listener: a socket that bind has made, in this process
	// or in an earlier one that has left it. bind makes a socket with the name of the listener, or a
	// random name. nil calls bind. A listener closes its socket.
	Listen func(bind func() (*net.UnixListener, error)) (*net.UnixListener, error)
	// Logger receives messages for operators; nil discards them.
	Logger *slog.Logger
}

// withDefaults returns a copy of cfg, which may be nil, with all fields set but AllowUID.
func withDefaults(cfg *Config) Config {
	var c Config
	if cfg != nil {
		c = *cfg
	}
	softrdma.SetDefault(&c.RingSize, ring.DefaultSize)
	size := ring.MinSize
	for size < c.RingSize && size < ring.MaxSize {
		size *= 2
	}
	c.RingSize = size
	softrdma.SetDefault(&c.MaxPeerMemory, 4<<30)
	softrdma.SetDefault(&c.MaxMappedMemory, host.TotalMemory()/2)
	softrdma.SetDefault(&c.RequestTimeout, 5*time.Second)
	softrdma.SetDefault(&c.ReplyTimeout, 10*time.Second)
	softrdma.SetDefault(&c.ReadyTimeout, 10*time.Second)
	softrdma.SetDefault(&c.DrainTimeout, 500*time.Millisecond)
	softrdma.SetListening(&c.MaxStartups, &c.MaxBacklog, &c.Logger)
	if c.Listen == nil {
		c.Listen = func(bind func() (*net.UnixListener, error)) (*net.UnixListener, error) { return bind() }
	}
	return c
}
