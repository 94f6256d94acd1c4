package rdma

import (
	"context"
	"net/netip"
	"os"
)

// Provider opens the adapters of one fabric. Programs pass providers to their users;
// there is no registry. Safe for concurrent use.
//
// Source: [ND Provider]
type Provider interface {
	// Name is the name of the fabric, as lists of providers carry it on the wire:
	// "iwarp", "shm", "roce", "ib". Two implementations of one fabric have the same name.
	// [OP-38b]
	Name() string
	// Addrs lists the addresses of this host that an adapter can be opened on. The list
	// is empty only for a fabric without IP addresses, such as a fabric inside one host.
	//
	// Errors: StatusDeviceNotReady if the fabric uses IP addresses and the host has none
	// at the moment.
	Addrs(ctx context.Context) ([]netip.Addr, error)
	// OpenAdapter opens the adapter that has the address. With the zero Addr the provider
	// chooses. Every call makes a new protection domain: a peer of one adapter cannot
	// access the objects of another adapter.
	//
	// Errors: StatusInvalidAddress if no adapter has the address, StatusDeviceNotReady if
	// there is no device.
	OpenAdapter(ctx context.Context, local netip.Addr) (Adapter, error)
}

// Adapter makes all other objects and is their protection domain. Safe for
// concurrent use.
//
// Source: [ND Adapter]
type Adapter interface {
	// Info returns identity, limits and capabilities, which do not change.
	Info() AdapterInfo
	// Addrs lists the addresses of this adapter.
	Addrs(ctx context.Context) ([]netip.Addr, error)
	// CreateCompletionQueue makes a queue for depth results. A queue pair may have room for
	// requests before the results of earlier ones appear. A program that posts while there
	// is room must therefore count the results that it has not polled.
	//
	// Errors: StatusInvalidParameterN(3) for a depth below 1 or above the limit.
	CreateCompletionQueue(depth int) (CompletionQueue, error)
	// Alloc returns zeroed memory for registration, outside the Go heap. It may be faster
	// with this adapter than other memory. size is in bytes and is rounded up to whole
	// pages.
	Alloc(ctx context.Context, size int) (Memory, error)
	// RegisterMemory lets the adapter access buf with the given rights until the region
	// is closed. The same memory may be registered many times. The caller remains the
	// owner of buf; the region keeps it alive.
	//
	// Errors: StatusInvalidParameter for a nil buffer or a buffer above
	// MaxRegistrationSize, StatusInvalidBufferSize for an empty buffer,
	// StatusInsufficientResources.
	RegisterMemory(ctx context.Context, buf []byte, access Access) (MemoryRegion, error)
	// RegisterFile makes a file usable as the source of RDMA writes. The caller keeps the
	// file open until the source is closed.
	//
	// Errors: StatusNotSupported without CapFileSource.
	RegisterFile(ctx context.Context, f *os.File) (FileSource, error)
	// CreateMemoryWindow makes an unbound window.
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
	// Errors: StatusInvalidParameterN(2) for the receive queue, (3) initiator queue, (5)
	// receive depth, (6) initiator depth, (7) receive SGE, (8) initiator SGE, (9) inline
	// size. With a shared receive queue: (4) for the shared queue, (6) initiator depth,
	// (7) initiator SGE, (8) inline size.
	CreateQueuePair(cfg QueuePairConfig) (QueuePair, error)
	// CreateConnector makes an unbound connector.
	CreateConnector() (Connector, error)
	// CreateListener makes an unbound listener.
	CreateListener() (Listener, error)
	// Close closes all objects of the adapter, then the adapter. A second Close does
	// nothing.
	Close() error
}

// Memory is memory that an adapter allocated.
type Memory interface {
	// Bytes returns the memory, which must not be used after Close.
	Bytes() []byte
	// Close frees the memory; close the regions on it first. A second Close does nothing.
	Close() error
}

// MemoryRegion is registered memory.
//
// Source: [ND MemoryRegion]
type MemoryRegion interface {
	// Bytes returns the registered memory.
	Bytes() []byte
	// Access returns the rights.
	Access() Access
	// RemoteAddr returns the address of the first byte of the region for the peer. The
	// provider chooses the address, which is not a pointer. The byte at offset n has that
	// address plus n. [OP-18]
	RemoteAddr() RemoteAddr
	// Close deregisters the memory. After its return no byte of the memory is read or
	// written for a peer, and the token is invalid. If the fabric maps memory of Alloc
	// into the peer (rdma/shm), this holds only for a peer that follows the fabric's
	// protocol. A second Close does nothing.
	//
	// Errors: StatusDeviceBusy while a window is bound to the region; the region then
	// stays open. StatusDeviceBusy also while a peer can still access the memory; then
	// only the token is invalid, and Close may be called again.
	Close() error
}

// MemoryWindow exposes a part of a region to the peer of one queue pair.
//
// Source: [ND MemoryWindow]
type MemoryWindow interface {
	// RemoteAddr returns the address of the first byte of the window for the peer. It
	// changes with every bind and is valid once the post of the bind has returned.
	RemoteAddr() RemoteAddr
	// Close invalidates the window if it is bound, and frees it.
	Close() error
}

// FileSource is a file that RDMA writes may read their data from.
type FileSource interface {
	// File returns the registered file.
	File() *os.File
	// Close ends the use of the file. A second Close does nothing.
	Close() error
}

// CompletionQueue holds the results of requests. Safe for concurrent use.
//
// Source: [ND CompletionQueue]
type CompletionQueue interface {
	// Poll takes up to len(results) results, oldest first, and never blocks. A count
	// below len(results) means that the queue was empty.
	//
	// Errors: StatusBufferOverflow once the queue has overrun; net.ErrClosed (wrapped)
	// once it is closed and empty.
	Poll(results []Result) (int, error)
	// Wait waits for an event of the given kind. A result ends all waits in progress that
	// it satisfies, and counts once. No wake-up is lost: a result that arrives after a
	// Poll found the queue empty ends the next Wait at once, unless it has ended a wait
	// already. A failed request satisfies every kind but NotifyErrors. NotifyErrors waits
	// for the failure of the queue itself. While a NotifyAny waits, NotifySolicited
	// counts as NotifyAny. After Wait, Poll until the queue is empty.
	//
	// Errors: the error of ctx (with StatusCanceled); StatusBufferOverflow after an
	// overrun; StatusCanceled when the queue is closed.
	//
	// Source: [ND CompletionQueue.Notify]
	Wait(ctx context.Context, kind NotifyKind) error
	// Resize changes the depth; no result is lost.
	//
	// Errors: StatusInvalidParameter above the limit, StatusBufferOverflow if the queued
	// results do not fit, StatusNotSupported.
	Resize(depth int) error
	// Close ends all waits. Close the queue pairs that use the queue first. A second
	// Close does nothing.
	Close() error
}

// SharedReceiveQueueConfig configures a shared receive queue.
//
// Source: [ND Adapter.CreateSharedReceiveQueue]
type SharedReceiveQueueConfig struct {
	// Depth is the number of receives, MaxSGE the number of entries of each.
	Depth, MaxSGE int
	// NotifyThreshold: Wait returns when fewer receives than this are left; 0 for never.
	NotifyThreshold int
}

// SharedReceiveQueue holds receives for many queue pairs. A send that finds it empty
// waits; it does not break the connection. Safe for concurrent use.
//
// Fill the queue in one call, or before its connections run. A receive that is posted
// later, with memory that was never posted before, counts as the return of a taken
// receive. A queue that is filled receive by receive under traffic limits each connection
// to its share of the first few receives.
//
// Source: [ND SharedReceiveQueue]
type SharedReceiveQueue interface {
	// PostReceive queues receives and returns the number queued. An error is about the
	// first receive that was not queued.
	//
	// Errors: StatusNoMoreEntries, StatusDataOverrun, StatusBufferOverflow.
	PostReceive(reqs []ReceiveRequest) (int, error)
	// Wait waits until fewer receives than the threshold are left.
	Wait(ctx context.Context) error
	// Modify changes depth and threshold; 0 keeps a value.
	//
	// Errors: StatusBufferOverflow below the number outstanding, StatusInvalidParameter
	// above the limit.
	Modify(depth, threshold int) error
	// Close frees the queue. Close its queue pairs first.
	Close() error
}

// QueuePairConfig configures a queue pair.
//
// Source: [ND Adapter.CreateQueuePair], [ND Adapter.CreateQueuePairWithSrq]
type QueuePairConfig struct {
	// ReceiveCQ holds the results of receives, InitiatorCQ all others. They may be the
	// same and may serve many queue pairs.
	ReceiveCQ, InitiatorCQ CompletionQueue
	// SharedReceive, if set, supplies the receives; ReceiveDepth and MaxReceiveSGE are
	// then unused.
	SharedReceive SharedReceiveQueue
	// Context is returned in every result, as Result.QueuePairContext.
	Context uint64
	// ReceiveDepth and InitiatorDepth bound the outstanding requests.
	ReceiveDepth, InitiatorDepth int
	// MaxReceiveSGE and MaxInitiatorSGE bound the entries of one request.
	MaxReceiveSGE, MaxInitiatorSGE int
	// InlineSize bounds the data of one inline request, in bytes.
	InlineSize int
	// AcceptByReference: results of receives may have RemoteData, which the program
	// releases. Without it the data is copied into the receive.
	AcceptByReference bool
}

// QueuePair takes the work requests of a connection. It serves one connection and is not
// used again. Safe for concurrent use; concurrent posts have an arbitrary order.
//
// Source: [ND QueuePair]
type QueuePair interface {
	// Post queues requests for the peer and returns the number queued, in order. An error
	// is about the first request that was not queued; connection and queue continue to
	// work.
	//
	// Errors: StatusConnectionInvalid when not connected, StatusNoMoreEntries when the
	// queue is full, StatusDataOverrun for too many SGEs, StatusBufferOverflow for too
	// many bytes, StatusAccessViolation for memory outside a region and for a closed file
	// source, StatusInvalidParameterN(4) for the flags of a send and (6) of a write,
	// StatusInvalidParameterMix for flags that need a file or exclude one,
	// StatusDeviceBusy for FlagOnlyIfCached, StatusNotSupported.
	Post(reqs []Request) (int, error)
	// PostReceive queues receives, also before connecting, and returns the number queued.
	// Receives must be posted before the peer sends.
	//
	// Errors: StatusNoMoreEntries, StatusDataOverrun, StatusBufferOverflow,
	// StatusAccessViolation, StatusInvalidHandle after Close.
	PostReceive(reqs []ReceiveRequest) (int, error)
	// Flush ends all outstanding requests with StatusCanceled. Some may still be in
	// progress when it returns.
	Flush() error
	// TrimIdle returns unused pages to the system: the pages of posted receives, whose
	// contents become undefined, and the pages that the provider keeps for this
	// connection. The system allocates the pages again on their next use. Data that
	// arrives or is posted at the same time is not lost. TrimIdle may be called at any
	// time. It costs system calls, so call it only for a connection that has been idle
	// for seconds. Without CapPageable it does nothing.
	TrimIdle()
	// Close disconnects, flushes, and waits until the adapter no longer accesses the
	// memory of the requests. A second Close does nothing.
	Close() error
}

// ReadLimits bound the RDMA reads in progress on a connection: Inbound the reads that
// this side answers, Outbound the reads that it begins.
//
// Source: [ND Connector.GetReadLimits]
type ReadLimits struct {
	Inbound, Outbound int
}

// Listener accepts connection requests.
//
// Source: [ND Listener]
type Listener interface {
	// Bind sets the address; port 0 picks a free one.
	//
	// Errors: StatusSharingViolation, StatusAddressAlreadyAssociated for a second
	// Bind, StatusInvalidAddress.
	Bind(ctx context.Context, local Addr) error
	// Listen begins to take connection requests. backlog bounds the waiting requests;
	// with 0 the provider chooses the bound.
	Listen(backlog int) error
	// LocalAddr returns the bound address, with the chosen port.
	//
	// Errors: StatusInvalidDeviceState when not listening.
	LocalAddr() (Addr, error)
	// ConnectionRequest waits for a connection request and gives it to an unused
	// connector, which then has the peer's private data and read limits, and accepts or
	// rejects. Of many waiting calls each gets one request. The connector may belong to
	// another adapter of the same provider, so that each connection can have a protection
	// domain of its own.
	//
	// Errors: StatusCanceled when the listener is closed or ctx ends;
	// StatusInvalidParameter for a connector of another provider.
	ConnectionRequest(ctx context.Context, into Connector) error
	// Close stops listening and refuses the requests that wait. A second Close does
	// nothing.
	Close() error
}

// KnownPeersListener is a Listener that can prefer the requests of known peers. If it has to drop
// connections or requests, those of other peers go first.
type KnownPeersListener interface {
	Listener
	// SetKnownPeers sets the function that returns the user of the host of an address, "" if the host
	// is not known. A listener calls it with locks held, so it must not block. The known hosts of one
	// user share the preference.
	SetKnownPeers(userOf func(host netip.Addr) string)
}

// Connector makes one connection, from either side.
//
// The active side calls Bind, Connect, CompleteConnect; the passive side calls
// Listener.ConnectionRequest, then Accept or Reject.
//
// Source: [ND Connector]
type Connector interface {
	// Bind sets the local address. With the zero Addr the provider chooses.
	//
	// Errors: StatusAddressAlreadyAssociated for a second Bind, StatusSharingViolation.
	Bind(ctx context.Context, local Addr) error
	// Connect requests a connection of qp, with private data and read limits, and returns
	// when the peer has accepted. CompleteConnect or Reject must follow. A failed attempt
	// leaves qp as it was.
	//
	// Errors: StatusConnectionRefused, StatusNetworkUnreachable, StatusHostUnreachable,
	// StatusIOTimeout (after these four the connector may be used again),
	// StatusInvalidBufferSize for the private data, StatusConnectionActive while
	// connecting or connected.
	Connect(ctx context.Context, qp QueuePair, remote Addr, limits ReadLimits, privateData []byte) error
	// CompleteConnect ends the handshake of Connect.
	//
	// Errors: StatusConnectionInvalid when not connecting, StatusIOTimeout.
	CompleteConnect(ctx context.Context) error
	// Accept accepts the request and connects qp. The queue pair belongs to the same
	// adapter and has its first receive posted.
	//
	// Errors: StatusConnectionAborted if the peer ended the attempt,
	// StatusConnectionActive, StatusInvalidBufferSize, StatusIOTimeout.
	Accept(ctx context.Context, qp QueuePair, limits ReadLimits, privateData []byte) error
	// Reject refuses the request on the passive side, the acceptance on the active side.
	Reject(privateData []byte) error
	// ReadLimits returns the peer's read limits as this side sees them, clipped.
	ReadLimits() (ReadLimits, error)
	// PrivateData returns a copy of the private data of the peer's request, acceptance or
	// rejection. Some fabrics pad it with zeros.
	PrivateData() ([]byte, error)
	// LocalAddr and PeerAddr return the ends of the connection.
	//
	// Errors: StatusConnectionInvalid when there is none.
	LocalAddr() (Addr, error)
	PeerAddr() (Addr, error)
	// Done is closed when either side ends the connection, before the queue pair is
	// flushed. Err then returns the reason: net.ErrClosed (wrapped) after an orderly end.
	Done() <-chan struct{}
	Err() error
	// Disconnect ends the connection in order and flushes the queue pair.
	//
	// Errors: StatusConnectionInvalid when not connected.
	Disconnect(ctx context.Context) error
	// Close disconnects at once if connected, and frees the connector. A second Close
	// does nothing.
	Close() error
}
