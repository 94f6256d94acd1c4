package rdmaconn

import (
	"sync/atomic"

	"lwio/internal/client/barrier"
	"lwio/internal/poller"
	"lwio/internal/wire"
	"lwio/rdma"
)

// RequestState is where an entry is in its life.
// The package comment has the picture.
//
// An entry is a credit: it stays taken until the server has answered, also
// after the call has left. When the connection is down, pending and abandoned entries
// become dead. [OP-66] [OP-94a] [OP-113]
type RequestState uint64

// The states of an entry.
const (
	requestFree      RequestState = iota
	RequestPending                // posted, a call waits
	RequestSettling               // the result is being written, or the call has it already
	RequestDone                   // answered; the result is the waiter's
	requestExpired                // Config.Timeout passed; the waiter does not know yet
	requestLate                   // answered after it expired
	RequestAbandoned              // no call waits
	RequestDead                   // the connection is down, or the credit was retired
)

// requestKind is the meaning of the answer.
type requestKind uint8

// The kinds of requests.
const (
	kindControl requestKind = iota // AUTH, REGISTER, CLOSE
	KindRead
	KindWrite
	kindGrow   // the CREDIT message that answers a positive delta
	kindRetire // a CREDIT message that gives up its credit
	kindWakeUp // an INTERRUPT
)

// io reports whether the server counts the request as I/O.
func (k requestKind) io() bool { return k == KindRead || k == KindWrite }

// Request is one credit and all that one request in flight needs. Its owner writes
// the plain fields between acquire and post, the goroutine that finishes the request after it
// settled the state, the waiter after it saw RequestDone.
type Request struct {
	Index int
	// Word is generation<<8 | polledBit | state; the generation is part of the
	// cookie, so that an answer to an earlier request of the entry is noticed.
	Word atomic.Uint64
	// Block is where the answer to a polled request appears. The server can write
	// it at any time. [OP-89]
	Block *atomic.Uint64
	// Tick is the watchdog's clock at the time of the post, or untimed.
	Tick atomic.Int64
	// Waiter is where the call waits.
	Waiter poller.Waiter
	// began is the connection's clock at the time of the post, in nanoseconds.
	began int64
	// pace is where the delay is noted, or nil.
	pace *pace

	Fid    uint16 // of I/O until that is cancelled, else 0; the waiter's, else guarded by sendQueue.Mu
	Kind   requestKind
	Own    bool           // the call has a deadline of its own
	Want   uint32         // bytes asked for or sent
	Epoch  *barrier.Epoch // of a write
	Buffer *BufferRegion  // that a read goes to or a write is gathered from, or nil
	Op     *Ticket        // of I/O, while a queue waits for it, else nil
	Number uint64         // of the message
	Round  uint64         // of posts, that the message goes with
	Again  bool           // the message was sent on an earlier connection, with that number
	result wire.IOStatusBlock

	Sges   []rdma.SGE // of the message, from the queue to the post
	Send   []byte     // header and, for small writes, data
	Bounce []byte     // where small reads arrive
	sendAt int        // offset of send in its region
	LandAt int        // offset of bounce in its region
}

// untimed is the tick of a request that the watchdog leaves alone.
const untimed = 1 << 62

// The layout of Request.Word and of cookies.
const (
	stateBits   = 8
	polledBit   = 1 << (stateBits - 1) // the answer is a status block
	StateMask   = polledBit - 1
	IndexBits   = 16
	IndexMask   = 1<<IndexBits - 1
	generations = 1 << (64 - IndexBits) // the cookie holds as many
)

// State returns the state of the entry.
func (s *Request) State() RequestState { return RequestState(s.Word.Load() & StateMask) }

// isOutstanding reports whether the answer of the server is outstanding in this state.
func (st RequestState) isOutstanding() bool {
	return st == RequestPending || st == requestExpired || st == RequestAbandoned
}

// Generation numbers the requests of the entry.
func (s *Request) Generation() uint64 { return s.Word.Load() >> stateBits }

// Ready reports whether the waiter need not wait any longer.
func (s *Request) Ready() bool {
	st := s.State()
	return st != RequestPending && st != RequestSettling
}

// isPolled reports whether the answer to the request is a status block.
func (s *Request) isPolled() bool { return s.Word.Load()&polledBit != 0 }

// to changes the state if it is from, in the same generation.
func (s *Request) to(from, next RequestState) bool {
	w := s.Word.Load()
	if RequestState(w&StateMask) != from {
		return false
	}
	return s.Word.CompareAndSwap(w, w&^StateMask|uint64(next))
}

// Set changes the state of an entry that no other goroutine can change now.
func (s *Request) Set(next RequestState) { s.Word.Store(s.Word.Load()&^StateMask | uint64(next)) }

// Start makes the request outstanding, in the state as.
func (s *Request) Start(as RequestState, polled bool) {
	w := s.Word.Load()>>stateBits<<stateBits | uint64(as)
	if polled {
		w |= polledBit
	}
	s.Word.Store(w)
}

// renew starts the next generation in the state free.
func (s *Request) renew() {
	gen := s.Word.Load()>>stateBits + 1
	s.Word.Store(gen << stateBits)
}

// cookie names the entry and its generation; it is never 0. [OP-73]
func (s *Request) cookie() uint64 {
	return (s.Word.Load()>>stateBits)%generations<<IndexBits | uint64(s.Index+1)
}

// immediate is unique among the requests in flight. [OP-85]
func (s *Request) immediate() uint32 { return uint32(s.cookie()) }

// drop ends the epoch of a write.
func (s *Request) drop() {
	s.Buffer, s.Op = nil, nil
	if s.Epoch != nil {
		s.Epoch.End()
		s.Epoch = nil
	}
}
