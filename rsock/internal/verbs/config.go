package verbs

import "lwio/rdma"

// The shape of a socket whose Config leaves it open, and what bounds it.
const (
	// DefaultDepth is how many receives, and how many other requests, of a socket
	// may be pending.
	DefaultDepth = 32
	// MaxBuffers is how many buffers one request may name.
	MaxBuffers = 4
	// MaxDescriptorSize is the room, in bytes, that a descriptor of any provider
	// fits in.
	MaxDescriptorSize = 64
	// MaxOffset is the largest offset of an RDMA operation, in bytes.
	MaxOffset = 1<<32 - 1
	// readsInProgress is how many RDMA reads of each side may be in progress.
	readsInProgress = 16
)

// Config tunes a service. The zero value is fit for use.
type Config struct {
	// ReceiveDepth is how many receives of a socket may be pending, SendDepth how
	// many sends and RDMA operations; 0 means DefaultDepth, and other values are
	// clamped to 1 and what the adapter has.
	ReceiveDepth, SendDepth int
	// MaxRdmaSize bounds one RDMA operation, in bytes; 0, or more than the adapter
	// has, means what the adapter has.
	MaxRdmaSize int
}

// Options are what a socket of a service can carry: the values of the socket options
// that a provider has to have.
//
// Source: [WSD §2.4]
type Options struct {
	// MaxMsgSize is the largest Send, in bytes (SO_MAX_MSG_SIZE).
	MaxMsgSize int
	// MaxRdmaSize is the largest RdmaRead or RdmaWrite, in bytes
	// (SO_MAX_RDMA_SIZE): larger transfers have to be split.
	MaxRdmaSize int
	// RdmaThresholdSize: blocks of more bytes go better by RDMA, others by Send
	// (SO_RDMA_THRESHOLD_SIZE).
	RdmaThresholdSize int
	// MaxBuffers is how many buffers a Send, a Recv or an RdmaWrite may name,
	// MaxReadBuffers how many an RdmaRead.
	MaxBuffers, MaxReadBuffers int
	// ReceiveDepth and SendDepth are those of the Config, clamped.
	ReceiveDepth, SendDepth int
}

// optionsOf are the options of a service on an adapter.
func optionsOf(cfg *Config, info *rdma.AdapterInfo) Options {
	most := min(uint64(info.MaxTransferLength), info.MaxRegistrationSize, 1<<31-1)
	o := Options{
		MaxMsgSize:        int(most),
		MaxRdmaSize:       int(most),
		RdmaThresholdSize: info.LargeRequestThreshold,
		MaxBuffers:        min(MaxBuffers, info.MaxInitiatorSGE, info.MaxReceiveSGE),
		MaxReadBuffers:    min(MaxBuffers, info.MaxReadSGE),
		ReceiveDepth:      depth(cfg.ReceiveDepth, info.MaxReceiveQueueDepth),
		SendDepth:         depth(cfg.SendDepth, info.MaxInitiatorQueueDepth),
	}
	if cfg.MaxRdmaSize > 0 {
		o.MaxRdmaSize = min(o.MaxRdmaSize, cfg.MaxRdmaSize)
	}
	return o
}

// depth is that of a queue.
func depth(want, most int) int {
	if want == 0 {
		want = DefaultDepth
	}
	return min(max(want, 1), most)
}

// limits are the RDMA reads of a connection.
func limits(info *rdma.AdapterInfo) rdma.ReadLimits {
	return rdma.ReadLimits{
		Inbound:  min(readsInProgress, info.MaxInboundReadLimit),
		Outbound: min(readsInProgress, info.MaxOutboundReadLimit),
	}
}
