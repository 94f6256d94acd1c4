package lwio

import (
	"io"
	"sync/atomic"

	"lwio/internal/epochs"
	"lwio/internal/ntstatus"
	"lwio/internal/wire"
	"lwio/rdma"
)

// slotState is where a slot is in its life.
// The package comment has the picture.
//
// A slot is a credit: it stays taken until the server has answered, whatever
// became of the call. When the connection is down, what is pending or abandoned
// becomes dead. [OP-66] [OP-94a] [OP-113]
type slotState uint64

const (
	slotFree      slotState = iota
	slotPending             // posted, somebody waits
	slotSettling            // the result is being written, or the call has it already
	slotDone                // answered; the result is the waiter's
	slotExpired             // Config.Timeout passed; the waiter does not know yet
	slotLate                // answered after it expired
	slotAbandoned           // nobody waits
	slotDead                // the connection is down, or the credit was retired
)

// slotKind tells the reader what the answer means.
type slotKind uint8

const (
	kindControl slotKind = iota // AUTH, REGISTER, CLOSE
	kindRead
	kindWrite
	kindGrow   // the CREDIT message that answers a positive delta
	kindRetire // a CREDIT message that gives up its credit
	kindWakeUp // an INTERRUPT
)

// io reports whether the server counts the request as I/O.
func (k slotKind) io() bool { return k == kindRead || k == kindWrite }

// slot is one credit and all that one request in flight needs. Its owner writes
// the plain fields between acquire and post, whoever finishes the request after it
// settled the state, the waiter after it saw slotDone.
type slot struct {
	index int
	// word is generation<<8 | polledBit | state; the generation is part of the
	// cookie, so that an answer to an earlier request of the slot is noticed.
	word atomic.Uint64
	// block is where the answer to a polled request appears. The server can write
	// it at any time. [OP-89]
	block *atomic.Uint64
	// tick is the watchdog's clock at the time of the post, or untimed.
	tick atomic.Int64
	// waiter is where the call waits.
	waiter waiter
	// began is the connection's clock at the time of the post, in nanoseconds.
	began int64
	// pace is where the delay is noted, or nil.
	pace *pace

	fid    uint16 // of I/O until that is cancelled, else 0; the waiter's, else guarded by conn.sendMu
	kind   slotKind
	own    bool          // the call has a deadline of its own
	want   uint32        // bytes asked for or sent
	epoch  *epochs.Epoch // of a write
	lent   *lease        // that a read goes to or a write is gathered from, or nil
	op     *operation    // of I/O, while a queue waits for it, else nil
	number uint64        // of the message
	round  uint64        // of posts, that the message goes with
	again  bool          // the message was sent on an earlier connection, with that number
	result wire.IOStatusBlock

	sges   []rdma.SGE // of the message, from the queue to the post
	send   []byte     // header and, for small writes, data
	bounce []byte     // where small reads arrive
	sendAt int        // offset of send in its region
	landAt int        // offset of bounce in its region
}

// untimed is the tick of a request that the watchdog leaves alone.
const untimed = 1 << 62

const (
	stateBits   = 8
	polledBit   = 1 << (stateBits - 1) // the answer is a status block
	stateMask   = polledBit - 1
	indexBits   = 16
	indexMask   = 1<<indexBits - 1
	generations = 1 << (64 - indexBits) // the cookie holds as many
)

func (s *slot) state() slotState { return slotState(s.word.Load() & stateMask) }

// owed reports whether the server owes an answer in this state.
func (st slotState) owed() bool {
	return st == slotPending || st == slotExpired || st == slotAbandoned
}

// outstanding reports whether the server owes an answer.
func (s *slot) outstanding() bool { return s.state().owed() }

// generation numbers the requests of the slot.
func (s *slot) generation() uint64 { return s.word.Load() >> stateBits }

// ready reports whether the waiter need not wait any longer.
func (s *slot) ready() bool {
	st := s.state()
	return st != slotPending && st != slotSettling
}

// isPolled reports whether the answer to the request is a status block.
func (s *slot) isPolled() bool { return s.word.Load()&polledBit != 0 }

// to changes the state if it is from, in the same generation.
func (s *slot) to(from, next slotState) bool {
	w := s.word.Load()
	if slotState(w&stateMask) != from {
		return false
	}
	return s.word.CompareAndSwap(w, w&^stateMask|uint64(next))
}

// set changes the state of a slot that nobody else can change now.
func (s *slot) set(next slotState) { s.word.Store(s.word.Load()&^stateMask | uint64(next)) }

// start makes the request outstanding, in the state as.
func (s *slot) start(as slotState, polled bool) {
	w := s.word.Load()>>stateBits<<stateBits | uint64(as)
	if polled {
		w |= polledBit
	}
	s.word.Store(w)
}

// renew starts the next generation in the state free.
func (s *slot) renew() {
	gen := s.word.Load()>>stateBits + 1
	s.word.Store(gen << stateBits)
}

// cookie names the slot and its generation; it is never 0. [OP-73]
func (s *slot) cookie() uint64 {
	return (s.word.Load()>>stateBits)%generations<<indexBits | uint64(s.index+1)
}

// immediate is unique among the requests in flight. [OP-85]
func (s *slot) immediate() uint32 { return uint32(s.cookie()) }

// drop ends the epoch of a write.
func (s *slot) drop() {
	s.lent, s.op = nil, nil
	if s.epoch != nil {
		s.epoch.End()
		s.epoch = nil
	}
}

// endOfFile is the answer to a read at or after the end.
const endOfFile = uint32(ntstatus.EndOfFile)

// readResult reads the answer to a READ.
func readResult(ios wire.IOStatusBlock) (int, error) {
	switch ios.Status {
	case 0:
		if ios.Information == 0 {
			return 0, protocolError("the server read nothing and does not say why")
		}
		return int(ios.Information), nil
	case endOfFile:
		return 0, io.EOF
	}
	return 0, statusError(ios.Status)
}
