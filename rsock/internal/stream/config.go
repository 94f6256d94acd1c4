package stream

import (
	"time"

	"lwio/rsock/internal/verbs"
)

// The defaults of Config, and what is fixed.
const (
	// DefaultReceiveBuffers and DefaultBufferSize are the control buffers of a connection
	// that receive, and their size in bytes, which fits 16 KiB and what TLS puts around
	// them; sendBuffers are those that send.
	DefaultReceiveBuffers = 12
	DefaultBufferSize     = 17 << 10
	sendBuffers           = 8
	// maxHead is how much of the data goes with an offer at the most, in bytes.
	maxHead = 4000
	// DefaultLinger is how long Close, and a call that must wait for the peer to let go of
	// memory, wait before the connection is broken off.
	DefaultLinger = 3 * time.Second
	// maxIncoming is how many offers of the peer may be unfinished.
	maxIncoming = 8
	// stageSize is the size of a piece of memory that data is offered from, in bytes, and
	// stagePieces how many a connection has.
	stageSize   = 512 << 10
	stagePieces = 3
	// fetchSize is how much is fetched for small reads at a time, in bytes, and directRead
	// the size from which a Read is worth a fetch of its own.
	fetchSize  = 64 << 10
	directRead = 16 << 10
	// drainLimit is how much is fetched from a peer that closes, in bytes.
	drainLimit = 4 << 20
	// urgentLimit is how much urgent data is kept, in bytes, and urgentParts in how many
	// parts; what is older is dropped.
	urgentLimit = 16 << 10
	urgentParts = 256
)

// Config tunes a stream. The zero value works.
type Config struct {
	// ReceiveBuffers is how many control messages the peer may have under way, and
	// BufferSize the most bytes of each, 32 of them its header; 0 means the defaults. They
	// are clamped to 8..4096 and what the socket allows, and to 256 bytes..64 KiB.
	ReceiveBuffers, BufferSize int
	// Threshold is the size, in bytes, of the largest Write that goes by control messages;
	// 0 means that of the provider (SO_RDMA_THRESHOLD_SIZE).
	Threshold int
	// NoRead makes this side one that cannot RDMA Read.
	NoRead bool
	// Spin is for how long a call looks for progress before it sleeps; a negative one never
	// sleeps. In the middle of large data a call looks for a while in any case.
	Spin time.Duration
	// Linger bounds Close; 0 means DefaultLinger.
	Linger time.Duration
	// Memory is what the stream shares with others for large data; without any left it moves
	// that in control messages. Nil has no bound.
	Memory *Budget
}

// withDefaults fills in what is open, for a socket with such options.
func (c Config) withDefaults(o verbs.Options) Config {
	if c.ReceiveBuffers <= 0 {
		c.ReceiveBuffers = DefaultReceiveBuffers
	}
	c.ReceiveBuffers = min(max(min(c.ReceiveBuffers, o.ReceiveDepth), minBuffers), maxBuffers)
	if c.BufferSize <= 0 {
		c.BufferSize = DefaultBufferSize
	}
	c.BufferSize = min(max(min(c.BufferSize, o.MaxMsgSize), minBufferSize), maxBufferSize)
	if c.Threshold <= 0 {
		c.Threshold = max(o.RdmaThresholdSize, 1)
	}
	if c.Linger <= 0 {
		c.Linger = DefaultLinger
	}
	return c
}
