package softrdma

import (
	"sync"

	"lwio/rdma"
)

// WorkRequest is a request of an initiator queue. The fields for a Send or a Write of
// memory are adjacent.
type WorkRequest struct {
	Flags     rdma.Flags
	Immediate uint32 // follows a write
	Status    rdma.Status
	Op        rdma.Op
	Pending   bool // waits for the peer's answer; Status is its outcome
	ID        uint64
	Length    int
	Remote    rdma.RemoteAddr
	Pieces    []Piece  // data, or the sink of a read; empty for inline data and files
	room      [1]Piece // backs Pieces when one is enough
	// File is the source of a write, or nil; Real counts the bytes read from it.
	File rdma.FileSource
	// Window is the work of a bind or an invalidate.
	Window WindowWork

	Sent       int // bytes that the provider has sent
	Real       int
	FileOffset int64
	Inline     []byte
	Atomic     rdma.Atomic
}

// Asks reports whether the peer answers the request: a read or an atomic.
func (w *WorkRequest) Asks() bool { return w.Op == rdma.OpRead || w.Op.IsAtomic() }

// Fenced reports whether the request must wait for earlier reads and atomics. reads is
// the number in progress, outbound the limit.
//
// Source: [ND Op flags READ_FENCE], [RFC 6581 §9.1], [RFC 7306 §5]
func (w *WorkRequest) Fenced(reads, outbound int) bool {
	return w.Flags&rdma.FlagReadFence != 0 && reads > 0 || w.Asks() && reads >= outbound
}

// Set fills the slot with a checked request of length bytes.
func (w *WorkRequest) Set(r *rdma.Request, length int) {
	w.Op, w.Flags, w.ID, w.Length, w.Remote, w.Immediate = r.Op, r.Flags, r.ID, length, r.Remote, r.Immediate
	w.Status, w.Pending, w.File, w.Sent, w.Real = rdma.StatusSuccess, false, nil, 0, 0
	switch {
	case r.Op == rdma.OpWrite && r.File != nil:
		w.Pieces, w.Inline = w.Pieces[:0], w.Inline[:0]
		w.File, w.FileOffset = r.File, r.FileOffset
		return
	case r.Flags&rdma.FlagInline != 0:
		w.Pieces, w.Inline = w.Pieces[:0], append(w.Inline[:0], r.Inline...)
		return
	case r.Op.IsAtomic():
		w.Atomic = r.Atomic
	}
	if w.Pieces == nil {
		w.Pieces = w.room[:0]
	}
	w.Pieces = AppendPieces(w.Pieces[:0], r.SGL)
}

// Drop releases the memory and the file of the request.
func (w *WorkRequest) Drop() {
	clear(w.Pieces)
	w.File = nil
}

// InitiatorQueue is the initiator queue of a queue pair. It holds the work requests in
// the order of posting, and the right to send, which one goroutine has at a time.
//
// Requests [Requests.Head, Done) are complete but silent, and keep their slots. Requests
// [Done, Next) are sent and wait for the answer to a read or an atomic, which may be an
// earlier request. Requests [Next, Requests.Tail) are not sent. Only the sending
// goroutine advances Next.
//
// The lock guards all fields and the windows of the queue pair. The lock of a completion
// queue may be taken while it is held.
//
// Source: [ND QueuePair]
type InitiatorQueue struct {
	sync.Mutex
	Requests FIFO[WorkRequest]
	Done     uint64
	Next     uint64
	Cancel   uint64 // requests before this number end with StatusCanceled
	Windows  Windows
	Sending  bool // a goroutine has the right to send

	d          *Domain
	cq         *CompletionQueue
	context    uint64
	depth      int
	maxSGE     int
	inlineSize int
	idle       sync.Cond // signalled when Sending becomes false

	order   sync.Mutex    // held by Settle; taken before the lock
	settled []rdma.Result // scratch of Settle
}

// Init makes the queue; its memory grows with use.
func (q *InitiatorQueue) Init(d *Domain, cfg *rdma.QueuePairConfig, cq *CompletionQueue) {
	q.d, q.cq, q.context = d, cq, cfg.Context
	q.depth, q.maxSGE, q.inlineSize = cfg.InitiatorDepth, cfg.MaxInitiatorSGE, cfg.InlineSize
	q.idle.L = &q.Mutex
	q.Windows.Init(d, &q.Mutex)
}

// AdmitLocked checks the operation of a request, the state of the connection, the flags
// and the depth of the queue. It does not check the data.
//
// Errors: StatusInvalidParameter, StatusConnectionInvalid, StatusInvalidParameterN,
// StatusNoMoreEntries.
func (q *InitiatorQueue) AdmitLocked(r *rdma.Request, connected bool) rdma.Status {
	flagParam := 4
	switch r.Op {
	case rdma.OpSend, rdma.OpRead, rdma.OpInvalidate, rdma.OpFetchAdd, rdma.OpCompareSwap:
	case rdma.OpWrite, rdma.OpBind:
		flagParam = 6
	default:
		return rdma.StatusInvalidParameter
	}
	switch {
	case !connected:
		return rdma.StatusConnectionInvalid
	case !r.Op.Allows(r.Flags):
		return rdma.StatusInvalidParameterN(flagParam)
	case q.Requests.Len() >= q.depth:
		return rdma.StatusNoMoreEntries
	}
	return rdma.StatusSuccess
}

// CheckData checks the memory, the inline data or the file range of a request, and
// returns its length in bytes. outbound is the number of reads and atomics that this side
// may have in progress. The provider checks the file itself.
//
// Errors: StatusInvalidDeviceRequest for a read if outbound is 0; the errors of
// rdma.QueuePair.Post.
func (q *InitiatorQueue) CheckData(r *rdma.Request, outbound int) (int, rdma.Status) {
	access := rdma.Access(0)
	asks := r.Op == rdma.OpRead || r.Op.IsAtomic()
	if asks {
		access = rdma.AccessLocalWrite | rdma.AccessReadSink
	}
	switch {
	case asks && outbound == 0:
		return 0, rdma.StatusInvalidDeviceRequest
	case r.Op == rdma.OpWrite && r.File != nil:
		return r.FileLength, checkFileRange(r)
	case r.Flags&rdma.FlagOnlyIfCached != 0:
		return 0, rdma.StatusInvalidParameterMix
	case r.Flags&rdma.FlagInline != 0:
		if len(r.Inline) > q.inlineSize {
			return 0, rdma.StatusBufferOverflow
		}
		return len(r.Inline), rdma.StatusSuccess
	}
	length, status := q.d.CheckSGL(r.SGL, q.maxSGE, access)
	if status == rdma.StatusSuccess && r.Op.IsAtomic() && length != AtomicSize {
		status = rdma.StatusInvalidBufferSize
	}
	return length, status
}

// AtomicSize is the size in bytes of the operand of an atomic.
const AtomicSize = 8

// checkFileRange checks the part of a file that a write names.
func checkFileRange(r *rdma.Request) rdma.Status {
	switch {
	case r.FileOffset < 0 || r.FileLength < 0:
		return rdma.StatusInvalidParameter
	case r.Flags&rdma.FlagInline != 0 || len(r.SGL) != 0:
		return rdma.StatusInvalidParameterMix
	case r.FileLength > MaxTransfer || r.FileOffset+int64(r.FileLength) < 0:
		return rdma.StatusBufferOverflow
	}
	return rdma.StatusSuccess
}

// PushLocked queues a checked request of length bytes.
func (q *InitiatorQueue) PushLocked(r *rdma.Request, length int) { q.Requests.Push().Set(r, length) }

// PushWindowLocked checks and queues an admitted bind or invalidate. It is carried out at
// once if no unsent request precedes it; a silent request is then complete and takes no
// slot. reads is the number of reads in progress.
//
// Source: [ND QueuePair.Bind], [ND QueuePair.Invalidate], [OP-111b]
func (q *InitiatorQueue) PushWindowLocked(r *rdma.Request, reads int) rdma.Status {
	now := !q.Sending && q.Next == q.Requests.Tail && (r.Flags&rdma.FlagReadFence == 0 || reads == 0)
	work, status := q.Windows.PostLocked(r, now)
	if status != rdma.StatusSuccess || now && r.Flags&rdma.FlagSilentSuccess != 0 {
		return status
	}
	w := q.Requests.Push()
	w.Set(r, 0)
	w.Window = work
	if now {
		q.Next++
	}
	return rdma.StatusSuccess
}

// SettleLocked completes the sent requests in their order, up to the first request that
// waits for an answer, and appends at most most results. A silent request keeps its slot
// until a later one with a result completes.
func (q *InitiatorQueue) SettleLocked(results []rdma.Result, most int) []rdma.Result {
	for q.Done != q.Next && len(results) < most {
		w := q.Requests.At(q.Done)
		if w.Pending {
			break
		}
		q.Done++
		w.Drop()
		q.Windows.GiveUpLocked(&w.Window)
		if w.Status != rdma.StatusSuccess || w.Flags&rdma.FlagSilentSuccess == 0 {
			q.Requests.Head = q.Done
			results = append(results, rdma.Result{Status: w.Status, Op: w.Op, Bytes: w.Real, QueuePairContext: q.context, ID: w.ID})
		}
	}
	return results
}

// Settle marks n more requests as sent, completes requests like SettleLocked, and pushes
// their results. A slot is free before its result appears. Concurrent calls push in
// order.
func (q *InitiatorQueue) Settle(n uint64) {
	q.order.Lock()
	defer q.order.Unlock()
	for more := true; more; {
		q.Lock()
		q.Next += n
		n = 0
		q.settled = q.SettleLocked(q.settled[:0], MaxResults)
		q.Unlock()
		more = len(q.settled) == MaxResults
		q.cq.Push(q.settled)
	}
}

// ReleaseSendingLocked returns the right to send.
func (q *InitiatorQueue) ReleaseSendingLocked() {
	q.Sending = false
	q.idle.Broadcast()
}

// AwaitSendingLocked waits until no goroutine has the right to send.
func (q *InitiatorQueue) AwaitSendingLocked() {
	for q.Sending {
		q.idle.Wait()
	}
}

// End completes all requests. The first request that waits for an answer ends with the
// status reading; later requests that wait end with StatusCanceled. Any other request n
// ends with the status that unanswered returns. Precondition: no goroutine has the right
// to send.
func (q *InitiatorQueue) End(reading rdma.Status, unanswered func(n uint64, w *WorkRequest) rdma.Status) {
	q.Lock()
	for n := q.Done; n != q.Requests.Tail; n++ {
		w := q.Requests.At(n)
		if w.Pending {
			w.Status, reading = reading, rdma.StatusCanceled
		} else {
			w.Status = unanswered(n, w)
		}
		w.Pending = false
	}
	unsent := q.Requests.Tail - q.Next
	q.Unlock()
	q.Windows.RevokeAll()
	q.Settle(unsent)
}
