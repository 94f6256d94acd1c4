package stream

import (
	"time"

	"lwio/rsock/internal/verbs"
)

// The defaults of Config, and fixed sizes.
const (
	// DefaultReceiveBuffers is the number of control buffers that receive, and
	// sendBuffers the number of control buffers that send. DefaultBufferSize is their
	// size in bytes. It fits a TLS record with 16 KiB of data.
	DefaultReceiveBuffers = 12
	DefaultBufferSize     = 17 << 10
	sendBuffers           = 8
	// maxHead is the most data that goes with an offer, in bytes.
	maxHead = 4000
	// DefaultLinger is how long Close waits before it resets the connection. A call
	// whose memory the peer uses waits as long.
	DefaultLinger = 3 * time.Second
	// maxIncoming is how many offers of the peer may be unfinished.
	maxIncoming = 8
	// stageSize is the size of a piece of the stage, in bytes, and stagePieces the number of
	// pieces of a stream.
	stageSize   = 512 << 10
	stagePieces = 3
	// fetchSize is the size of a fetch for small reads, in bytes, and directRead the size
	// from which a Read is worth a fetch of its own.
	fetchSize  = 64 << 10
	directRead = 16 << 10
	// drainLimit is the most data that is fetched from a peer that closes, in bytes.
	drainLimit = 4 << 20
	// urgentLimit is the most urgent data that is kept, in bytes, and urgentParts the most
	// parts; older data is dropped.
	urgentLimit = 16 << 10
	urgentParts = 256
)

// Config tunes a stream. The zero value works.
type Config struct {
	// ReceiveBuffers is how many control messages the peer may have in flight, and
	// BufferSize the most bytes of each, 32 of them its header; 0 means the defaults. They
	// are clamped to 8..4096 and 256 bytes..64 KiB, and to the limits of the socket.
	ReceiveBuffers, BufferSize int
	// Threshold is the size, in bytes, of the largest Write that goes by control
	// messages; 0 means the threshold of the provider (SO_RDMA_THRESHOLD_SIZE).
	Threshold int
	// NoRead makes this side behave like one without RDMA Read.
	NoRead bool
	// BusyPoll is how long a call busy-polls before it sleeps. During a bulk transfer it is
	// bulkSpin at least, unless it is negative.
	BusyPoll time.Duration
	// Linger bounds Close; 0 means DefaultLinger.
	Linger time.Duration
	// Memory is the budget for large data that the stream shares with other streams.
	// When the budget is used up, large data goes by control messages. Nil has no bound.
	Memory *Budget
}

// withDefaults returns the Config with its defaults for a socket with the given options.
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
