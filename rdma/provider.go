package rdma

import (
	"context"
	"net/netip"
	"os"
)

// Provider opens the adapters of one fabric. Providers are passed to what uses
// them; there is no registry. Safe for concurrent use.
//
// Source: [ND Provider]
type Provider interface {
	// Name is the fabric that the provider speaks, as it stands in a list of
	// providers on the wire: "iwarp", "shm", "roce", "ib". Two implementations
	// of one fabric have one name. [OP-38b]
	Name() string
	// Addrs lists the addresses of this host that an adapter can be opened on. It is
	// empty only for a fabric that has no IP addresses at all, as one inside the host.
	//
	// Errors: StatusDeviceNotReady where one of IP has none at the moment.
	Addrs(ctx context.Context) ([]netip.Addr, error)
	// OpenAdapter opens the adapter that has the address; the zero Addr leaves
	// the choice to the provider. Every call gives a new protection domain: what
	// is registered with one adapter cannot be reached through another.
	//
	// Errors: StatusInvalidAddress if no adapter has the address,
	// StatusDeviceNotReady if there is no device.
	OpenAdapter(ctx context.Context, local netip.Addr) (Adapter, error)
}

// Adapter makes all other objects and is their protection domain. Safe for
// concurrent use.
//
// Source: [ND Adapter]
type Adapter interface {
	// Info returns identity, limits and capabilities; they do not change.
	Info() AdapterInfo
	// Addrs lists the addresses of this adapter.
	Addrs(ctx context.Context) ([]netip.Addr, error)
	// CreateCompletionQueue makes a queue for depth results.
	//
	// Errors: StatusInvalidParameterN(3) for a depth below 1 or above the limit.
	CreateCompletionQueue(depth int) (CompletionQueue, error)
	// Alloc returns zeroed memory fit for registration, outside the Go heap,
	// that may be faster for this adapter than any other. size is in bytes and
	// is rounded up to whole pages.
	Alloc(ctx context.Context, size int) (Memory, error)
	// RegisterMemory lets the adapter touch buf with the given rights until the
	// region is closed. The same memory may be registered many times. The caller
	// keeps buf; the region keeps it alive.
	//
	// Errors: StatusInvalidParameter for a nil buffer or one above
	// MaxRegistrationSize, StatusInvalidBufferSize for an empty one,
	// StatusInsufficientResources.
	RegisterMemory(ctx context.Context, buf []byte, access Access) (MemoryRegion, error)
	// RegisterFile makes a file usable as the source of RDMA writes. The file
	// stays the caller's, who must not close it before the source.
	//
	// Errors: StatusNotSupported without CapFileSource.
	RegisterFile(ctx context.Context, f *os.File) (FileSource, error)
	// CreateMemoryWindow makes a window that lends nothing yet.
	//
	// Errors: StatusNotSupported without CapWindows.
	CreateMemoryWindow() (MemoryWindow, error)
	// CreateSharedReceiveQueue makes a queue of receives for many queue pairs.
	//
	// Errors: StatusNotSupported without CapSharedReceive;
	// StatusInvalidParameterN(3) for the depth, (4) for MaxSGE.
	CreateSharedReceiveQueue(cfg SharedReceiveQueueConfig) (SharedReceiveQueue, error)
	// CreateQueuePair makes an unconnected queue pair.
	//
	// Errors: StatusInvalidParameterN(2) for the receive queue, (3) initiator
	// queue, (5) receive depth, (6) initiator depth, (7) receive SGE, (8)
	// initiator SGE, (9) inline size; with a shared receive queue (4) for that,
	// (6) initiator depth, (7) initiator SGE, (8) inline size.
	CreateQueuePair(cfg QueuePairConfig) (QueuePair, error)
	// CreateConnector makes an unbound connector.
	CreateConnector() (Connector, error)
	// CreateListener makes an unbound listener.
	CreateListener() (Listener, error)
	// Close closes everything that the adapter made, then the adapter. A second
	// Close does nothing.
	Close() error
}

// Memory is memory that an adapter allocated.
type Memory interface {
	// Bytes is the memory; it must not be used once Close was called.
	Bytes() []byte
	// Close gives the memory back; close the regions on it first. A second Close
	// does nothing.
	Close() error
}

// MemoryRegion is registered memory.
//
// Source: [ND MemoryRegion]
type MemoryRegion interface {
	// Bytes is the memory that was registered.
	Bytes() []byte
	// Access gives the rights.
	Access() Access
	// RemoteAddr is how a peer names the first byte of the region. The address
	// is chosen by the provider and is no pointer; a byte at offset n has the
	// address plus n. [OP-18]
	RemoteAddr() RemoteAddr
	// Close deregisters. When it has returned no byte of the memory is read or
	// written for a peer any more, nor is its token valid. Where the fabric hands
	// memory of Alloc itself to a peer (rdma/shm), that is promised only of a peer
	// which keeps to the fabric's protocol. A second Close does nothing.
	//
	// Errors: StatusDeviceBusy while a window is bound to the region, which stays open
	// then; and while a peer that was given the memory cannot be kept from it: then
	// only the token is invalid, and Close may be called again.
	Close() error
}

// MemoryWindow lends a part of a region to the peer of one queue pair.
//
// Source: [ND MemoryWindow]
type MemoryWindow interface {
	// RemoteAddr is how the peer names the first byte of the window. It changes
	// with every bind and is right as soon as the post of the bind returned.
	RemoteAddr() RemoteAddr
	// Close invalidates the window, if it is bound, and frees it.
	Close() error
}

// FileSource is a file that RDMA writes may take their data from.
type FileSource interface {
	// File is the file that was registered.
	File() *os.File
	// Close ends the use of the file. A second Close does nothing.
	Close() error
}

// CompletionQueue is where results appear. Safe for concurrent use.
//
// Source: [ND CompletionQueue]
type CompletionQueue interface {
	// Poll takes up to len(results) results, oldest first, and never blocks. A
	// count below len(results) says that the queue was empty then.
	//
	// Errors: StatusBufferOverflow once the queue has overrun, net.ErrClosed
	// (wrapped) once it is closed and empty.
	Poll(results []Result) (int, error)
	// Wait waits for an event of the given kind. A result satisfies
	// notifications at most once, and all that wait at that moment. No wake-up is
	// lost: a result that arrived after a Poll which found the queue empty, and
	// has not yet satisfied a notification, satisfies the next Wait at once. A
	// failure satisfies every kind but NotifyErrors, which waits for the failure
	// of the queue itself. While a NotifyAny waits, NotifySolicited counts as
	// NotifyAny. After a notification, Poll until the queue is empty.
	//
	// Errors: ctx's (with StatusCanceled); StatusBufferOverflow after an
	// overrun; StatusCanceled when the queue is closed.
	//
	// Source: [ND CompletionQueue.Notify]
	Wait(ctx context.Context, kind NotifyKind) error
	// Resize changes the depth; no result is lost.
	//
	// Errors: StatusInvalidParameter above the limit, StatusBufferOverflow if
	// more results are queued than would fit, StatusNotSupported.
	Resize(depth int) error
	// Close ends all notifications. Close the queue pairs that use it first. A
	// second Close does nothing.
	Close() error
}

// SharedReceiveQueueConfig is the shape of a shared receive queue.
//
// Source: [ND Adapter.CreateSharedReceiveQueue]
type SharedReceiveQueueConfig struct {
	// Depth is the number of receives, MaxSGE the entries of each.
	Depth, MaxSGE int
	// NotifyThreshold: Wait is satisfied when fewer receives are left; 0 for
	// never.
	NotifyThreshold int
}

// SharedReceiveQueue holds receives for many queue pairs. A send that finds it
// empty waits; it does not break the connection. Safe for concurrent use.
//
// Fill it in one call, or before its connections run: a receive that is posted later
// with memory that was never posted counts as one that a connection had taken, and a
// queue that is filled one by one under traffic holds each connection to its share of
// the few that were there first.
//
// Source: [ND SharedReceiveQueue]
type SharedReceiveQueue interface {
	// PostReceive queues receives and returns how many it took; an error is about
	// the first that it did not take.
	//
	// Errors: StatusNoMoreEntries, StatusDataOverrun, StatusBufferOverflow.
	PostReceive(reqs []ReceiveRequest) (int, error)
	// Wait waits until fewer receives than the threshold are left.
	Wait(ctx context.Context) error
	// Modify changes depth and threshold; 0 leaves one as it is.
	//
	// Errors: StatusBufferOverflow below the number outstanding,
	// StatusInvalidParameter above the limit.
	Modify(depth, threshold int) error
	// Close frees the queue. Close its queue pairs first.
	Close() error
}

// QueuePairConfig is the shape of a queue pair.
//
// Source: [ND Adapter.CreateQueuePair], [ND Adapter.CreateQueuePairWithSrq]
type QueuePairConfig struct {
	// ReceiveCQ gets the results of receives, InitiatorCQ all others; they may
	// be the same and may serve many queue pairs.
	ReceiveCQ, InitiatorCQ CompletionQueue
	// SharedReceive, if set, supplies the receives; ReceiveDepth and
	// MaxReceiveSGE are then not used.
	SharedReceive SharedReceiveQueue
	// Context comes back in every result, as Result.QueuePairContext.
	Context uint64
	// ReceiveDepth and InitiatorDepth are the numbers of requests that may be
	// outstanding.
	ReceiveDepth, InitiatorDepth int
	// MaxReceiveSGE and MaxInitiatorSGE are the entries of one request.
	MaxReceiveSGE, MaxInitiatorSGE int
	// InlineSize is the data of one inline request, in bytes.
	InlineSize int
	// AcceptByReference: results of receives may have a Loan, which the program releases. Else
	// what is lent is copied into the receive.
	AcceptByReference bool
}

// QueuePair takes work for one connection. It serves one connection in its life.
// Safe for concurrent use; concurrent posts are ordered in some way.
//
// Source: [ND QueuePair]
type QueuePair interface {
	// Post queues requests for the peer and returns how many it took, in order;
	// an error is about the first that it did not take, and leaves connection
	// and queue as they are.
	//
	// Errors: StatusConnectionInvalid when not connected, StatusNoMoreEntries
	// when the queue is full, StatusDataOverrun for too many SGEs,
	// StatusBufferOverflow for too many bytes, StatusAccessViolation for memory
	// outside a region, StatusInvalidParameterN(4) for the flags of a send and
	// (6) of a write, StatusDeviceBusy for FlagOnlyIfCached,
	// StatusNotSupported.
	Post(reqs []Request) (int, error)
	// PostReceive queues receives, at any time, also before connecting, and
	// returns how many it took. Receives must be there before the peer sends.
	//
	// Errors: StatusNoMoreEntries, StatusDataOverrun, StatusBufferOverflow,
	// StatusAccessViolation, StatusInvalidHandle after Close.
	PostReceive(reqs []ReceiveRequest) (int, error)
	// Flush ends all outstanding requests with StatusCanceled; some may still be
	// in progress when it returns.
	Flush() error
	// TrimIdle gives back the pages that hold nothing until something arrives or is sent: of
	// the receives that wait, whose contents are undefined then, and of what the provider
	// keeps for the connection alone. They come back with their next use, and what arrives
	// or is posted at the same time is where it belongs. It may be called at any time; after
	// a connection has been quiet for a while it is worth its system calls. Without
	// CapPageable it does nothing.
	TrimIdle()
	// Close disconnects, flushes, and waits until the adapter no longer touches
	// any memory of the queue pair's requests. A second Close does nothing.
	Close() error
}

// ReadLimits are the numbers of RDMA reads in progress that a side accepts and
// wants.
//
// Source: [ND Connector.GetReadLimits]
type ReadLimits struct {
	Inbound, Outbound int
}

// Listener takes incoming connections.
//
// Source: [ND Listener]
type Listener interface {
	// Bind sets the address; port 0 picks a free one.
	//
	// Errors: StatusSharingViolation, StatusAddressAlreadyAssociated for a second
	// Bind, StatusInvalidAddress.
	Bind(ctx context.Context, local Addr) error
	// Listen begins to take connections; backlog 0 leaves their number to the
	// provider, which bounds it.
	Listen(backlog int) error
	// LocalAddr is the address, with the port that was picked.
	//
	// Errors: StatusInvalidDeviceState when not listening.
	LocalAddr() (Addr, error)
	// ConnectionRequest waits for a connection request and hands it to an unused
	// connector, whose private data and read limits can then be asked for, and
	// which accepts or rejects. Many calls may wait; each request goes to one. The
	// connector may be of another adapter of the same provider, so that each
	// connection can have a protection domain of its own.
	//
	// Errors: StatusCanceled when the listener is closed or ctx ends;
	// StatusInvalidParameter for a connector of another provider.
	ConnectionRequest(ctx context.Context, into Connector) error
	// Close stops listening; requests that nobody took are refused. A second
	// Close does nothing.
	Close() error
}

// Connector makes one connection, from either side.
//
// The active side: Bind, Connect, CompleteConnect. The passive side:
// Listener.ConnectionRequest, then Accept or Reject.
//
// Source: [ND Connector]
type Connector interface {
	// Bind sets the local address; the zero Addr leaves it to the provider.
	//
	// Errors: StatusAddressAlreadyAssociated for a second Bind,
	// StatusSharingViolation.
	Bind(ctx context.Context, local Addr) error
	// Connect asks the peer for a connection of qp, with private data and read
	// limits, and returns when the peer accepted. Then CompleteConnect or Reject
	// must follow. An attempt that fails leaves qp as it was.
	//
	// Errors: StatusConnectionRefused, StatusNetworkUnreachable,
	// StatusHostUnreachable, StatusIOTimeout (after these four the connector may
	// try again), StatusInvalidBufferSize for the private data,
	// StatusConnectionActive while connecting or connected.
	Connect(ctx context.Context, qp QueuePair, remote Addr, limits ReadLimits, privateData []byte) error
	// CompleteConnect ends the handshake of Connect.
	//
	// Errors: StatusConnectionInvalid when not connecting, StatusIOTimeout.
	CompleteConnect(ctx context.Context) error
	// Accept accepts the request that the connector was given, for a queue pair
	// of the same adapter that has its first receive posted.
	//
	// Errors: StatusConnectionAborted if the peer gave up,
	// StatusConnectionActive, StatusInvalidBufferSize, StatusIOTimeout.
	Accept(ctx context.Context, qp QueuePair, limits ReadLimits, privateData []byte) error
	// Reject refuses, on the passive side the request, on the active side the
	// acceptance.
	Reject(privateData []byte) error
	// ReadLimits are the peer's wishes as this side sees them, clipped.
	ReadLimits() (ReadLimits, error)
	// PrivateData is what the peer sent with its request, acceptance or
	// rejection; some fabrics pad it with zeros. It is a copy.
	PrivateData() ([]byte, error)
	// LocalAddr and PeerAddr are the ends of the connection.
	//
	// Errors: StatusConnectionInvalid when there is none.
	LocalAddr() (Addr, error)
	PeerAddr() (Addr, error)
	// Done is closed when the connection ends, from whichever side, before the
	// queue pair is flushed; Err then says why: net.ErrClosed (wrapped) after
	// an orderly end.
	Done() <-chan struct{}
	Err() error
	// Disconnect ends the connection in good order and flushes the queue pair.
	//
	// Errors: StatusConnectionInvalid when not connected.
	Disconnect(ctx context.Context) error
	// Close disconnects at once, if need be, and frees the connector. A second
	// Close does nothing.
	Close() error
}
