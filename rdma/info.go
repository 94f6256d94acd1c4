package rdma

import (
	"fmt"
	"net/netip"
)

// Caps are the optional capabilities of an adapter.
//
// Source: [ND ND2_ADAPTER_INFO AdapterFlags]
type Caps uint32

// The capabilities. The first five are NetworkDirect's and have its values.
const (
	// CapInOrderPlacement: data that a peer writes becomes visible in the order of its
	// requests and, in each request, in the order of the bytes. An aligned 8-byte write
	// is one atomic store after all earlier placement, so a program may poll memory.
	// [OP-88] [OP-89b]
	CapInOrderPlacement Caps = 0x00000001
	// CapInterruptModeration: the completion queue can delay notifications.
	CapInterruptModeration Caps = 0x00000004
	// CapMultiEngine: completion queues progress in parallel.
	CapMultiEngine Caps = 0x00000008
	// CapCQResize: CompletionQueue.Resize works.
	CapCQResize Caps = 0x00000100
	// CapLoopback: an adapter can connect to itself.
	CapLoopback Caps = 0x00010000

	// CapRead: RDMA reads, in both directions.
	CapRead Caps = 0x01000000
	// CapWindows: memory windows.
	CapWindows Caps = 0x02000000
	// CapSharedReceive: shared receive queues.
	CapSharedReceive Caps = 0x04000000
	// CapImmediate: RDMA writes with immediate data. [OP-86]
	CapImmediate Caps = 0x08000000
	// CapFileSource: RDMA writes that name a file instead of memory.
	CapFileSource Caps = 0x10000000
	// CapDirectFile: a write from a file may read the file straight into the peer's
	// memory. Without it, such a write is no faster than reading into memory and writing
	// from there.
	CapDirectFile Caps = 0x80000000
	// CapAtomics: OpFetchAdd and OpCompareSwap. They count as reads for the read limits
	// and for FlagReadFence.
	CapAtomics Caps = 0x40000000
	// CapPageable: the provider accesses regions by the addresses of the process and does
	// not pin their pages. The program may return pages of a registered region to the
	// system while no request uses them; later accesses get new pages.
	CapPageable Caps = 0x00100000
	// CapDirectAlloc: a peer accesses memory of Alloc directly, and other memory only
	// through this side's process.
	CapDirectAlloc Caps = 0x00200000
	// CapByReference: data of a message may stay in the sender's memory: see
	// FlagByReference.
	CapByReference Caps = 0x00400000
	// CapConfidential: only the two peers can see the data. [OP-114]
	CapConfidential Caps = 0x20000000
)

// Has reports whether all of want is there.
func (c Caps) Has(want Caps) bool { return c&want == want }

// AdapterInfo holds the identity and the limits of an adapter. All sizes are in
// bytes, all depths in requests.
//
// Source: [ND ND2_ADAPTER_INFO]
type AdapterInfo struct {
	// VendorID, DeviceID and AdapterID identify the adapter; AdapterID is unique
	// on a host.
	VendorID, DeviceID uint16
	AdapterID          uint64
	// MaxRegistrationSize bounds one memory region.
	MaxRegistrationSize uint64
	// MaxWindowSize bounds one memory window.
	MaxWindowSize uint64
	// MaxInitiatorSGE bounds the entries of a send or a write, MaxReceiveSGE the entries
	// of a receive, MaxReadSGE the entries of a read.
	MaxInitiatorSGE, MaxReceiveSGE, MaxReadSGE int
	// MaxTransferLength bounds the sum of the lengths of one request.
	MaxTransferLength uint32
	// MaxInlineDataSize bounds the data of one inline request.
	MaxInlineDataSize int
	// MaxInboundReadLimit bounds the peer's reads in progress on one connection,
	// MaxOutboundReadLimit this side's reads.
	MaxInboundReadLimit, MaxOutboundReadLimit int
	// MaxReceiveQueueDepth and the other three bound the depths of the queues. A
	// MaxSharedReceiveQueueDepth of 0 means that there are no shared receive queues.
	MaxReceiveQueueDepth, MaxInitiatorQueueDepth        int
	MaxSharedReceiveQueueDepth, MaxCompletionQueueDepth int
	// Up to InlineRequestThreshold bytes, inline data is faster. From
	// LargeRequestThreshold bytes, a read or write is faster than a send.
	InlineRequestThreshold, LargeRequestThreshold int
	// MaxCallerData bounds the private data of a Connect, MaxCalleeData the private data
	// of an Accept or a Reject.
	MaxCallerData, MaxCalleeData int
	// Caps are the optional capabilities.
	Caps Caps
}

// Addr names an end point of a fabric. It is comparable and implements net.Addr. On IP
// fabrics only AddrPort is set; on a fabric inside one host, Host and Name.
type Addr struct {
	// Fabric is the name of the fabric: "iwarp", "shm", "roce", "ib". [OP-38b]
	Fabric string
	// AddrPort is the address and port on an IP fabric.
	AddrPort netip.AddrPort
	// Host identifies the host on a fabric inside one host: its boot ID.
	Host [16]byte
	// Name is the name of the service on such a fabric.
	Name string
}

// IPAddr returns the address of an end point of an IP fabric.
func IPAddr(fabric string, ap netip.AddrPort) Addr { return Addr{Fabric: fabric, AddrPort: ap} }

// Network returns the fabric.
func (a Addr) Network() string { return a.Fabric }

// String returns the address in readable form.
func (a Addr) String() string {
	if a.AddrPort.IsValid() {
		return a.AddrPort.String()
	}
	if a.Name != "" {
		return fmt.Sprintf("%x/%s", a.Host[:4], a.Name)
	}
	return ""
}
