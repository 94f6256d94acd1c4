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
	// OpFetchAdd and OpCompareSwap change 8 bytes of the peer's memory atomically and
	// return the old value: see Atomic. They need CapAtomics.
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
	// FlagSilentSuccess: a success makes no result; a failure always makes one. The slot
	// becomes free when a later request with a result completes, so post at least one
	// request with a result per queue depth.
	FlagSilentSuccess Flags = 0x01
	// FlagReadFence: the request begins after all earlier reads and atomics are complete.
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
	// FlagOnlyIfCached (write from a file): the post fails at once with StatusDeviceBusy,
	// without a result or a queue slot, unless the file's pages are in memory. With
	// FlagSilentSuccess it also fails if the file is shorter than the range, because no
	// result reports the number of bytes. Some bytes may then have been placed.
	FlagOnlyIfCached Flags = 0x0200
	// FlagByReference (send): the bytes of the last SGE may stay in place. The peer may
	// read them until its program reports that it no longer needs them; the result of the
	// send does not end this. Until then the program neither changes the bytes nor closes
	// the region. If the fabric maps memory of Alloc into the peer (rdma/shm), a region
	// with a remote right that a send refers to is mapped too. The flag is a hint:
	// without CapByReference, or if the peer cannot access the region, the send is an
	// ordinary send.
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

// RemoteToken is the handle of a region or window for a peer. It is random; only the
// provider that made it can interpret it. It is a number; a protocol that carries it
// writes it in its own byte order. [OP-19]
type RemoteToken uint32

// RemoteAddr names memory of the peer: an address within the peer's region, and the token
// of that region or window.
type RemoteAddr struct {
	Addr  uint64
	Token RemoteToken
}

// Atomic is the operand of an atomic request on 8 bytes. The 8 bytes are one number in
// the byte order of the peer's machine. Atomics of all connections of the peer's provider
// exclude each other. Other accesses to these bytes are atomic with respect to them only
// through package sync/atomic.
//
// Source: [RFC 7306 §5.1]
type Atomic struct {
	// Value is the number that OpFetchAdd adds and OpCompareSwap stores.
	Value uint64
	// Mask of OpFetchAdd has a bit set at the top of each field: no carry leaves a field,
	// and the fields are added separately; 0 means plain addition. Mask of OpCompareSwap
	// has a bit set for each bit to store; the other bits keep their values; all ones
	// means a plain swap.
	Mask uint64
	// Compare of OpCompareSwap must equal the old value in the bits of CompareMask;
	// otherwise nothing is stored.
	Compare, CompareMask uint64
}

// Request is a work request for the initiator queue of a queue pair. The adapter reads
// the SGL only during the post, and not after the request can reach the peer: its answer
// may arrive before the post of later requests returns. The memory that the SGL names,
// and Region, Window and File, belong to the adapter until the result is polled.
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
	// the old value, in the byte order of this machine; any other length fails with
	// StatusInvalidBufferSize.
	SGL []SGE
	// Inline is the data that replaces SGL if FlagInline is set.
	Inline []byte
	// Remote is the target of a write, the source of a read, or the 8 bytes of an atomic.
	// The address of an atomic is a multiple of 8, and its memory allows remote reads and
	// writes.
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

	// File, if set, replaces SGL as the source of a write: FileLength bytes from
	// FileOffset. If the file is shorter or cannot be read, the data ends with zeros;
	// Result.Bytes is the number of bytes read from the file. [OP-92i]
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
	// Solicited is set for a receive if the sender asked for an event.
	Solicited bool
	// HasImmediate is set for a receive that a write with immediate data consumed;
	// Immediate is that data.
	HasImmediate bool
	Immediate    uint32
	// Bytes is the number of bytes received, or, for a write from a file, the number of
	// bytes read from the file. It is undefined for other requests and after a failure.
	Bytes int
	// QueuePairContext is QueuePairConfig.Context, ID is Request.ID or
	// ReceiveRequest.ID.
	QueuePairContext uint64
	ID               uint64
	// RemoteData, if set, is the end of a received message that was not copied into the
	// buffer. The buffer must still have space for it.
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
	// Errors: the error of do; net.ErrClosed (wrapped) after the end of the data;
	// StatusRemoteError if the data is gone, which ends do and the connection.
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
	// NotifySolicited: the next receive for which the sender asked for an event, or the
	// next failure.
	NotifySolicited NotifyKind = 2
)
