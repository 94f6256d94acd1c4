package rdma

// Access is a set of rights to the memory of a region. Reading it for a send or a write
// is always allowed.
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
	// OpFetchAdd and OpCompareSwap change 8 bytes of the peer's memory in one step and
	// return their old value: see Atomic. They need CapAtomics.
	OpFetchAdd    Op = 6
	OpCompareSwap Op = 7
)

// IsAtomic reports whether the operation is one of the two atomics.
func (o Op) IsAtomic() bool { return o == OpFetchAdd || o == OpCompareSwap }

// String returns the name of the operation.
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
	// FlagSilentSuccess: a success makes no result; a failure always does. The slot is
	// free again once a later request with a result has completed, so post one such per
	// queue depth.
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
	// FlagOnlyIfCached (write from a file): fails at once with StatusDeviceBusy, without
	// a result or a slot of the queue, unless the file's pages are in memory. With
	// FlagSilentSuccess it also fails if the file ends before, as no result reports the
	// number of bytes; some of them may have been placed.
	FlagOnlyIfCached Flags = 0x0200
	// FlagByReference (send): the bytes of the last SGE may stay in place. The peer may
	// read them until it reports to the program that it is done with them, independent of
	// the result of the send. Until then the program neither changes them nor closes the
	// region. Where the fabric maps memory of Alloc into the peer (rdma/shm), a region
	// with a remote right that a send refers to is mapped too. The flag is a hint:
	// without CapByReference, or where the peer cannot access the region, the send is an
	// ordinary one.
	FlagByReference Flags = 0x0400
)

// legalFlags are the flags that a request of each kind may carry.
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

// RemoteToken is the handle of a region or window for a peer: random, and opaque to all
// but the provider that made it. It is a number; a protocol that carries it writes it in
// its own byte order. [OP-19]
type RemoteToken uint32

// RemoteAddr names memory of the peer: an address within the region there, and its token.
type RemoteAddr struct {
	Addr  uint64
	Token RemoteToken
}

// Atomic is the operand of an atomic request on 8 bytes, which are one number in the byte
// order of the peer's machine. Atomics of all connections of the peer's provider exclude
// each other. Other accesses to these bytes are atomic to them only if they use package
// sync/atomic.
//
// Source: [RFC 7306 §5.1]
type Atomic struct {
	// Value is the number that OpFetchAdd adds and OpCompareSwap stores.
	Value uint64
	// Mask of OpFetchAdd has a bit set at the top of each field: no carry leaves a field,
	// and the fields are added separately; 0 is plain addition. Mask of OpCompareSwap has
	// a bit set where Value is stored; the other bits stay; all ones is a plain swap.
	Mask uint64
	// Compare of OpCompareSwap must equal the old value in the bits of CompareMask, or
	// nothing is stored.
	Compare, CompareMask uint64
}

// Request is a work request for the initiator queue of a queue pair. The SGL is read only
// during the post, and no longer once the peer can have the request, whose answer may
// arrive before the post of the others returns. The memory that it names, and Region,
// Window and File, belong to the adapter until the result is polled.
//
// Source: [ND QueuePair.Send], [ND QueuePair.Write], [ND QueuePair.Read],
// [ND QueuePair.Bind], [ND QueuePair.Invalidate]
type Request struct {
	// Op is any operation but OpReceive.
	Op    Op
	Flags Flags
	// ID is returned in the Result.
	ID uint64
	// SGL is the data of a send or write, or the sink of a read. It may be empty: a send,
	// read or write of no bytes is legal. For an atomic it names the 8 bytes that receive
	// the old value, in the byte order of this machine; any other length is
	// StatusInvalidBufferSize.
	SGL []SGE
	// Inline is the data in place of SGL where FlagInline is set.
	Inline []byte
	// Remote is the target of a write, the source of a read, or the 8 bytes of an atomic,
	// which must lie at a multiple of 8 and be open to the peer's reads and writes.
	Remote RemoteAddr
	// Atomic is the operand of an atomic.
	Atomic Atomic
	// Immediate accompanies a write that has FlagImmediate.
	Immediate uint32

	// Window is the window to bind or invalidate. A bind exposes the bytes [Offset,
	// Offset+Length) of Region.
	Window         MemoryWindow
	Region         MemoryRegion
	Offset, Length int

	// File, if set, is the source of a write in place of SGL: FileLength bytes from
	// FileOffset. Where the file is shorter or cannot be read, the data ends with zeros;
	// Result.Bytes is the number of real bytes. [OP-92i]
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
	// Status is StatusSuccess or the cause of the failure; a failure ends the connection.
	Status Status
	// Op is the kind of the request.
	Op Op
	// Solicited is set for a receive whose send asked for an event.
	Solicited bool
	// HasImmediate is set for a receive that a write with immediate data consumed;
	// Immediate is that data.
	HasImmediate bool
	Immediate    uint32
	// Bytes is the number of bytes received, or, for a write from a file, read from it.
	// Undefined for other requests and after a failure.
	Bytes int
	// QueuePairContext is QueuePairConfig.Context, ID is Request.ID or
	// ReceiveRequest.ID.
	QueuePairContext uint64
	ID               uint64
	// RemoteData, if set, is the end of a received message that was not copied into the
	// buffer, which must have space for it all the same.
	RemoteData RemoteData
}

// RemoteData is data of a message that is still in the sender's memory: see
// FlagByReference. It ends with Release or with the connection. Safe for concurrent use.
type RemoteData interface {
	// Len returns the number of bytes.
	Len() int
	// View calls do with the data, which is valid for reading until do returns. A hostile
	// sender can change it at any time: copy data before checking it.
	//
	// Errors: do's; net.ErrClosed (wrapped) after the end of the data; StatusRemoteError
	// if the data is gone, which ends the connection, and do with it.
	View(do func(p []byte) error) error
	// Release ends the use of the data. The program reports that to the sender in its own
	// protocol. A second Release does nothing.
	Release()
}

// NotifyKind is the kind of event that CompletionQueue.Wait waits for.
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
