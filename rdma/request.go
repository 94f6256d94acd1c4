package rdma

// Access says what may be done to the memory of a region, besides reading it
// for a send or a write, which is always allowed.
//
// Source: [ND MR flags]
type Access uint32

// The rights of a region, with NetworkDirect's values.
const (
	AccessLocalWrite  Access = 0x1
	AccessRemoteRead  Access = 0x2
	AccessRemoteWrite Access = 0x5 // contains AccessLocalWrite
	AccessReadSink    Access = 0x8
)

// Has reports whether all of want is there.
func (a Access) Has(want Access) bool { return a&want == want }

// Op is the kind of a request. The first six are NetworkDirect's and have its
// values.
//
// Source: [ND ND2_REQUEST_TYPE], [RFC 7306 §5]
type Op uint8

// The kinds of requests.
const (
	OpReceive    Op = 0
	OpSend       Op = 1
	OpBind       Op = 2
	OpInvalidate Op = 3
	OpRead       Op = 4
	OpWrite      Op = 5
	// OpFetchAdd and OpCompareSwap change 8 bytes of the peer's memory in one
	// step and fetch what was there before: see Atomic. Need CapAtomics.
	OpFetchAdd    Op = 6
	OpCompareSwap Op = 7
)

// IsAtomic reports whether the operation is one of the two atomics.
func (o Op) IsAtomic() bool { return o == OpFetchAdd || o == OpCompareSwap }

// String names the operation.
func (o Op) String() string {
	switch o {
	case OpReceive:
		return "receive"
	case OpSend:
		return "send"
	case OpBind:
		return "bind"
	case OpInvalidate:
		return "invalidate"
	case OpRead:
		return "read"
	case OpWrite:
		return "write"
	case OpFetchAdd:
		return "fetch and add"
	case OpCompareSwap:
		return "compare and swap"
	}
	return "unknown operation"
}

// Flags modify a request. The first six are NetworkDirect's and have its
// values.
//
// Source: [ND Op flags]
type Flags uint32

// The flags of requests.
const (
	// FlagSilentSuccess: a success makes no result; a failure always does. The
	// slot is free again once a later request with a result has completed, so
	// post one such per queue depth.
	FlagSilentSuccess Flags = 0x01
	// FlagReadFence: the request begins after all earlier reads and atomics are
	// complete.
	FlagReadFence Flags = 0x02
	// FlagSolicitEvent (send): the peer's receive satisfies a NotifySolicited.
	FlagSolicitEvent Flags = 0x04
	// FlagAllowRead, FlagAllowWrite (bind): the rights of the window.
	FlagAllowRead  Flags = 0x08
	FlagAllowWrite Flags = 0x10
	// FlagInline (send, write): the data is Request.Inline, copied by the call.
	FlagInline Flags = 0x20

	// FlagImmediate (write): Request.Immediate is delivered with the write and
	// consumes a receive of the peer. Needs CapImmediate.
	FlagImmediate Flags = 0x0100
	// FlagOnlyIfCached (write from a file): fail at once with StatusDeviceBusy,
	// without a result or a slot of the queue, unless the file's pages are in
	// memory. With FlagSilentSuccess, as nothing tells then how many bytes there
	// were, also if the file ends before; some of them may have been placed.
	FlagOnlyIfCached Flags = 0x0200
	// FlagByReference (send): the bytes of the last SGE may stay where they are. The peer may
	// read them until the program knows from the peer itself that it is done with them,
	// whenever the result of the send comes: the program does not change them, nor
	// close the region, before. Where the fabric hands memory of Alloc itself to a peer
	// (rdma/shm), a region with a remote right of which something is lent is handed
	// over too. It is a wish: without CapByReference, or where the peer cannot reach the
	// region, the send is like any other.
	FlagByReference Flags = 0x0400
)

// legalFlags says which flags a request of each kind may carry.
var legalFlags = [...]Flags{
	OpReceive:    0,
	OpSend:       FlagSilentSuccess | FlagReadFence | FlagSolicitEvent | FlagInline | FlagByReference,
	OpBind:       FlagSilentSuccess | FlagReadFence | FlagAllowRead | FlagAllowWrite,
	OpInvalidate: FlagSilentSuccess | FlagReadFence,
	OpRead:       FlagSilentSuccess | FlagReadFence,
	OpWrite:      FlagSilentSuccess | FlagReadFence | FlagInline | FlagImmediate | FlagOnlyIfCached,

	OpFetchAdd:    FlagSilentSuccess | FlagReadFence,
	OpCompareSwap: FlagSilentSuccess | FlagReadFence,
}

// Allows reports whether a request of kind o may carry the flags f.
//
// Source: [ND Op flags]
func (o Op) Allows(f Flags) bool {
	if int(o) >= len(legalFlags) || f&^legalFlags[o] != 0 {
		return false
	}
	return o != OpBind || f&(FlagAllowRead|FlagAllowWrite) != 0
}

// SGE names part of a registered region.
//
// Source: [ND ND2_SGE]
type SGE struct {
	Region         MemoryRegion
	Offset, Length int
}

// RemoteToken is the handle that lets a peer reach a region or a window: random,
// and opaque to all but the provider that made it. It is a number; a protocol
// that carries it writes it in its own byte order. [OP-19]
type RemoteToken uint32

// RemoteAddr names memory of the peer: an address in the terms of the region
// there, and its token.
type RemoteAddr struct {
	Addr  uint64
	Token RemoteToken
}

// Atomic is what an atomic request does to the 8 bytes that it names, which are
// one number in the byte order of the peer's machine. Two atomics never mix, on
// whatever connections of the peer's provider they came; other accesses to these
// bytes mix with them unless they are of package sync/atomic.
//
// Source: [RFC 7306 §5.1]
type Atomic struct {
	// Value is what OpFetchAdd adds and OpCompareSwap stores.
	Value uint64
	// Mask of OpFetchAdd has a bit set where no carry goes on to the next bit, so
	// that the number falls into parts that are added each for itself; 0 is plain
	// addition. Mask of OpCompareSwap has a bit set where Value is stored; the
	// other bits stay; all ones is a plain swap.
	Mask uint64
	// Compare of OpCompareSwap must be what is there, as far as CompareMask has
	// bits set, or else nothing is stored.
	Compare, CompareMask uint64
}

// Request is work for the initiator queue of a queue pair. The SGL is read only
// during the post, and not any more once the peer can have the request, whose answer
// may be there before the post of others returns; the memory that it names, and Region,
// Window and File, stay with the adapter until the result was polled.
//
// Source: [ND QueuePair.Send], [ND QueuePair.Write], [ND QueuePair.Read],
// [ND QueuePair.Bind], [ND QueuePair.Invalidate]
type Request struct {
	// Op is anything but OpReceive.
	Op    Op
	Flags Flags
	// ID comes back in the Result.
	ID uint64
	// SGL is the data of a send or write, or the sink of a read. It may be
	// empty: a send, read or write of nothing is legal. Of an atomic it names the
	// 8 bytes that what was there before goes to, in the byte order of this
	// machine; any other length is StatusInvalidBufferSize.
	SGL []SGE
	// Inline is the data instead of SGL where FlagInline is set.
	Inline []byte
	// Remote is where a write goes or a read comes from, or the 8 bytes of an
	// atomic, which must lie at a multiple of 8 and be open to the peer's reads
	// and writes.
	Remote RemoteAddr
	// Atomic says what an atomic does.
	Atomic Atomic
	// Immediate goes with a write that has FlagImmediate.
	Immediate uint32

	// Window is the window to bind or invalidate. A bind lends the bytes
	// [Offset, Offset+Length) of Region.
	Window         MemoryWindow
	Region         MemoryRegion
	Offset, Length int

	// File, if set, is where a write takes its data from instead of SGL:
	// FileLength bytes from FileOffset. A file that turns out shorter, or that
	// cannot be read any further, ends the data with zeros; Result.Bytes says how many
	// bytes were real. [OP-92i]
	File       FileSource
	FileOffset int64
	FileLength int
}

// ReceiveRequest is a buffer for one incoming send. The SGL is read only during
// the post.
//
// Source: [ND QueuePair.Receive]
type ReceiveRequest struct {
	ID  uint64
	SGL []SGE
}

// Result is the outcome of a request.
//
// Source: [ND ND2_RESULT]
type Result struct {
	// Status is StatusSuccess or says why the request failed; a failure ends the
	// connection.
	Status Status
	// Op is the kind of the request.
	Op Op
	// Solicited is set for a receive whose send asked for an event.
	Solicited bool
	// HasImmediate is set for a receive that was consumed by a write with
	// immediate data, which is then in Immediate.
	HasImmediate bool
	Immediate    uint32
	// Bytes is how much was received, or, for a write from a file, how much was
	// really there. Undefined for other requests and after a failure.
	Bytes int
	// QueuePairContext is QueuePairConfig.Context, ID is Request.ID or
	// ReceiveRequest.ID.
	QueuePairContext uint64
	ID               uint64
	// RemoteData, if set, is the end of a message that a receive is about: those bytes did
	// not go to the buffer, where the message has its room all the same.
	RemoteData RemoteData
}

// RemoteData is data of a message that is still where the sender has it: see FlagByReference. It is
// over when it was released, or with the connection. Safe for concurrent use.
type RemoteData interface {
	// Len is how many bytes it has.
	Len() int
	// View calls do with the data, to read it and while do runs only. A hostile sender
	// can change it at any time: what is checked must be copied first.
	//
	// Errors: do's; net.ErrClosed (wrapped) when the loan is over; StatusRemoteError if
	// the data has gone, which ends the connection, and do with it.
	View(do func(p []byte) error) error
	// Release ends the loan, of which the program tells the sender in its own way. A
	// second Release does nothing.
	Release()
}

// NotifyKind says which event a notification waits for.
//
// Source: [ND CompletionQueue.Notify]
type NotifyKind uint8

// The kinds of notification, with NetworkDirect's values.
const (
	// NotifyErrors: only a failure of the queue itself.
	NotifyErrors NotifyKind = 0
	// NotifyAny: the next result.
	NotifyAny NotifyKind = 1
	// NotifySolicited: the next receive whose send asked for an event, or the
	// next failure.
	NotifySolicited NotifyKind = 2
)
