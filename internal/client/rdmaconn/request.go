package rdmaconn

import (
	"sync/atomic"

	"lwio/internal/client/barrier"
	"lwio/internal/seal"
	"lwio/rdma"
)

// requestState is the state of an entry of the request table. The package comment has the
// picture.
//
// An entry is a credit. It stays taken until the server has answered, also after the
// operation has left. [OP-66] [OP-94a] [OP-113]
type requestState uint64

// The states of an entry.
const (
	requestFree      requestState = iota
	requestPending                // posted; an operation waits for the answer
	requestSettling               // one goroutine places the answer, or takes the request back
	requestAbandoned              // posted; no operation waits for the answer
	requestDead                   // the connection is down
)

// requestKind is the meaning of the answer.
type requestKind uint8

// The kinds of requests.
const (
	kindControl requestKind = iota // AUTH, REGISTER, CLOSE, CANCEL
	kindRead
	kindWrite
	kindGrow   // the CREDIT message that answers a positive delta
	kindRetire // a CREDIT message that gives up its credit
	kindWakeUp // an INTERRUPT
	kindStat
	kindLookup
	kindSync
	kindChange // LOCK and UNLOCK
)

// io reports whether the server counts the request as I/O.
func (k requestKind) io() bool { return k.transfers() || k >= kindStat }

// transfers reports whether the request moves data of the file.
func (k requestKind) transfers() bool { return k == kindRead || k == kindWrite }

// changes reports whether the request changes the file.
func (k requestKind) changes() bool { return k == kindWrite || k == kindChange }

// Request is an entry of the request table: one credit, with the state and the memory of one
// request in flight. The goroutine that took the credit writes the plain fields until the
// request is posted. Then they belong to the goroutine that settles the request.
type Request struct {
	index int
	word  atomic.Uint64 // a requestWord
	// block is the status block of a polled request. The server can write it at any time. [OP-89]
	block *atomic.Uint64
	tick  atomic.Int64 // of the watchdog at the post, or untimed

	began int64 // the connection's clock at the post, in nanoseconds
	pace  *pace // where the delay is noted, or nil

	kind  requestKind
	timed bool // the caller has a deadline of its own
	again bool // the message was sent on an earlier connection, with that number
	// fid is the file id of I/O until a CANCEL names it, else 0. Guarded by sendQueue.mu after
	// the post.
	fid    uint16
	want   uint32 // bytes asked for or sent
	number uint64 // of the message
	round  uint64 // of posts, that the message goes with

	ticket *Ticket        // of the operation that waits, or nil
	buffer *BufferRegion  // that a read goes to or a write is gathered from, or nil
	epoch  *barrier.Epoch // of a write that was given up
	late   chan<- error   // for the answer to a SYNC that was given up, or nil

	// The message on a sealed connection, until it is posted: source is its data, in parts.
	source   [][]byte
	outgoing seal.Descriptor
	staged   bool

	sges   []rdma.SGE // of the message, from the queue to the post
	send   []byte     // header and, for small writes, data
	bounce []byte     // where the data of small reads arrives
	sendAt int        // offset of send in its region
	landAt int        // offset of bounce in its region
}

// untimed is the tick of a request that the watchdog leaves alone.
const untimed = 1 << 62

// requestWord is generation<<8 | polledBit | state. The generation numbers the requests of an
// entry. It is part of the cookie, so that an answer to an earlier request is noticed.
type requestWord uint64

// The layout of a requestWord and of cookies.
const (
	stateBits   = 8
	polledBit   = 1 << (stateBits - 1) // a call busy-polls for the answer
	stateMask   = polledBit - 1
	indexBits   = 16
	indexMask   = 1<<indexBits - 1
	generations = 1 << (64 - indexBits) // the cookie holds as many
)

func (w requestWord) state() requestState { return requestState(w & stateMask) }
func (w requestWord) polled() bool        { return w&polledBit != 0 }
func (w requestWord) generation() uint64  { return uint64(w >> stateBits) }

// isOutstanding reports whether the request is posted and its answer was not seen.
func (w requestWord) isOutstanding() bool {
	st := w.state()
	return st == requestPending || st == requestAbandoned
}

// with is the word with another state.
func (w requestWord) with(st requestState) requestWord { return w&^stateMask | requestWord(st) }

// load returns the word now.
func (s *Request) load() requestWord { return requestWord(s.word.Load()) }

// start makes a free request outstanding: pending or abandoned.
func (s *Request) start(as requestState, polled bool) {
	w := s.load() >> stateBits << stateBits
	if polled {
		w |= polledBit
	}
	s.word.Store(uint64(w.with(as)))
}

// settle moves an outstanding request from the word w to settling. False says that another
// goroutine changed the word. The fields of the request then belong to the caller.
func (s *Request) settle(w requestWord) bool {
	return s.word.CompareAndSwap(uint64(w), uint64(w.with(requestSettling)))
}

// startClock begins the age of the request, which the watchdog measures, unless the caller has a
// deadline of its own. It does not store a value that is there.
func (s *Request) startClock(now int64) {
	if s.timed {
		now = untimed
	}
	if s.tick.Load() != now {
		s.tick.Store(now)
	}
}

// leave prepares a settling request for the state abandoned: its Buffer is busy, and a write in
// its epoch, until the server has answered. The watchdog counts its age from tick on.
//
// Source: [OP-113]
func (s *Request) leave(owner operation, tick int64) {
	if s.buffer != nil {
		s.buffer.abandoned(1)
	}
	s.epoch = owner.Abandon()
	if s.timed {
		s.tick.Store(tick)
	}
}

// abandon leaves a settling request to the server: its answer frees the entry.
func (s *Request) abandon() { s.set(requestAbandoned) }

// kill ends a request that gets no answer, as the connection is down.
func (s *Request) kill() { s.set(requestDead) }

// set changes the state of a request that no other goroutine can change now.
func (s *Request) set(next requestState) { s.word.Store(uint64(s.load().with(next))) }

// free makes the entry ready for its next request, and ends the epoch of an abandoned write.
func (s *Request) free() {
	s.drop()
	s.word.Store((s.load().generation() + 1) << stateBits)
}

// drop lets go of the operation, its Buffer and its epoch, and of an answer that does not come.
func (s *Request) drop() {
	s.buffer, s.ticket = nil, nil
	if s.epoch != nil {
		s.epoch.End()
		s.epoch = nil
	}
	s.sendLate(nil)
}

// sendLate hands over the answer to a SYNC that was given up, or nil if there is none, once.
func (s *Request) sendLate(answer error) {
	if s.late != nil {
		s.late <- answer // has room
		close(s.late)
		s.late = nil
	}
}

// cookie names the entry and its generation; it is never 0. [OP-73]
func (s *Request) cookie() uint64 {
	return s.load().generation()%generations<<indexBits | uint64(s.index+1)
}

// immediate is unique among the requests in flight. [OP-85]
func (s *Request) immediate() uint32 { return uint32(s.cookie()) }

// Body is the empty memory behind the header of the message, to append the message's body to.
func (s *Request) Body() []byte { return s.send[headerSize:headerSize] }

// Gather is the empty list of the parts of memory that the message is gathered from.
func (s *Request) Gather() []rdma.SGE { return s.sges[1:1] }

// requestTable has an entry for each request that may be in flight.
type requestTable struct {
	entries []Request
	free    freeRequests
}

// init makes n entries with room for a number of scatter/gather elements each.
func (t *requestTable) init(n, sges int) {
	t.entries = make([]Request, n)
	t.free.init(t.entries)
	for i := range t.entries {
		s := &t.entries[i]
		s.index = i
		s.sges = make([]rdma.SGE, sges)
		s.free()
	}
}

// ofCookie returns the entry that a cookie, or immediate data, names; nil if there is none.
// The caller compares the generation.
func (t *requestTable) ofCookie(v uint64) *Request {
	if i := int(v&indexMask) - 1; i >= 0 && i < len(t.entries) {
		return &t.entries[i]
	}
	return nil
}
