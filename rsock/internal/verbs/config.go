package verbs

import "lwio/rdma"

// The defaults and the limits of sockets.
const (
	// DefaultDepth is the default of Config.ReceiveDepth and Config.SendDepth, in requests.
	DefaultDepth = 32
	// MaxBuffers is how many buffers one request may have.
	MaxBuffers = 4
	// MaxDescriptorSize is the largest size of a descriptor of any provider, in bytes.
	MaxDescriptorSize = 64
	// MaxOffset is the largest offset of an RDMA operation, in bytes.
	MaxOffset = 1<<32 - 1
	// readsInProgress is how many RDMA reads of each side may be in progress.
	readsInProgress = 16
)

// Config tunes a service. The zero value works.
type Config struct {
	// ReceiveDepth is how many receives of a socket may be pending. SendDepth is how
	// many sends and RDMA operations may be pending. 0 means DefaultDepth; other values
	// are clamped to 1 and the limit of the adapter.
	ReceiveDepth, SendDepth int
	// MaxRdmaSize bounds one RDMA operation, in bytes; 0, and any larger value than the
	// limit of the adapter, means that limit.
	MaxRdmaSize int
}

// Options are the limits of the sockets of a service: the values of the socket options
// that a provider must have.
//
// Source: [WSD §2.4]
type Options struct {
	// MaxMsgSize is the largest Send, in bytes (SO_MAX_MSG_SIZE).
	MaxMsgSize int
	// MaxRdmaSize is the largest RdmaRead or RdmaWrite, in bytes (SO_MAX_RDMA_SIZE).
	// Larger transfers have to be split.
	MaxRdmaSize int
	// RdmaThresholdSize is the size, in bytes, up to which Send moves data faster than
	// RDMA (SO_RDMA_THRESHOLD_SIZE).
	RdmaThresholdSize int
	// MaxBuffers is how many buffers a Send, a Recv or an RdmaWrite may have.
	// MaxReadBuffers is how many buffers an RdmaRead may have.
	MaxBuffers, MaxReadBuffers int
	// ReceiveDepth and SendDepth are the clamped values of the Config.
	ReceiveDepth, SendDepth int
}

// optionsOf returns the options of a service on an adapter.
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

// depth returns the depth of a queue.
func depth(want, most int) int {
	if want == 0 {
		want = DefaultDepth
	}
	return min(max(want, 1), most)
}

// limits returns the limits of RDMA reads of a connection.
func limits(info *rdma.AdapterInfo) rdma.ReadLimits {
	return rdma.ReadLimits{
		Inbound:  min(readsInProgress, info.MaxInboundReadLimit),
		Outbound: min(readsInProgress, info.MaxOutboundReadLimit),
	}
}
