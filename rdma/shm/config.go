package shm

import (
	"log/slog"
	"time"

	"lwio/internal/host"
	"lwio/rdma/internal/softrdma"
	"lwio/rdma/shm/internal/ring"
)

// Name is the name of the fabric. [OP-38b]
const Name = "shm"

// Config tunes a provider. The zero value is fit for use.
type Config struct {
	// AllowUID says whether a process of that user may be a peer, on both sides
	// of a connection; the kernel vouches for the number. nil allows the user of
	// this process and root. It is called by many goroutines.
	AllowUID func(uid uint32) bool
	// RingSize is how many bytes may be under way to a peer: 0 means 256 KiB,
	// other values are rounded up to a power of two within 64 KiB..16 MiB.
	RingSize int
	// MaxPeerMemory bounds the memory of one peer that a connection maps, in
	// bytes; what is beyond it is reached by copy. 0 means 4 GiB.
	MaxPeerMemory int64
	// MaxMappedMemory bounds it over all connections of the provider, in bytes: a peer
	// that punches holes into its memory lets who writes there pay for the pages. 0
	// means half of the host's memory.
	MaxMappedMemory int64
	// BlockingWait lets who waits in CompletionQueue.Wait, on a queue of one
	// connection, block its thread of the system instead of sleeping in the network
	// poller. It is woken a little sooner, and every such waiter costs a thread: it
	// is for few of them.
	BlockingWait bool
	// RequestTimeout bounds how long a new connection may take to send its
	// request; 0 means 5 s.
	RequestTimeout time.Duration
	// ReplyTimeout bounds how long Connect waits for the peer's answer, which
	// includes the time that the peer's program takes to decide; 0 means 10 s.
	ReplyTimeout time.Duration
	// ReadyTimeout bounds how long Accept waits for the peer's CompleteConnect;
	// 0 means 10 s.
	ReadyTimeout time.Duration
	// DrainTimeout bounds how long the end of a connection, and the close of a
	// region that the peer is writing, wait for the peer; 0 means 500 ms.
	DrainTimeout time.Duration
	// MaxStartups bounds the connections of one listener that have not sent
	// their request yet; one more takes the place of the oldest. 0 means 256.
	MaxStartups int
	// MaxBacklog bounds the requests of one listener that wait to be taken and
	// clips the backlog of Listen; 0 means 1024.
	MaxBacklog int
	// Logger gets what is worth telling an operator; nil means silence.
	Logger *slog.Logger
}

// withDefaults is a copy of cfg, which may be nil, with everything set but
// AllowUID.
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
	return c
}
