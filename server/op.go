package server

import (
	"fmt"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/seal"
	"lwio/internal/wire"
	"lwio/internal/writelog"
	"lwio/rdma"
)

// none is a receive, or a block, that an operation does not have.
const none = int32(-1)

// op is a message of a client from its arrival until its answer has been sent. It belongs to one
// goroutine at a time: the receive loop, a worker, or the goroutine that posts the send queue. A
// queue passes it from one goroutine to the next.
//
//	received ─► inline ─────────────────────────────────┬─► outbox ─► posted ─► free
//	   │                                                │     ▲          │
//	   ├─► waiting for memory ─► file queue ─► worker ──┘     │          │
//	   │                          ▲                           │          │
//	   │                          └── next part (VEC_READ) ◄──┼──────────┘
//	   └─► parked: a CLOSE behind I/O, an armed INTERRUPT ────┘
type op struct {
	c            *conn
	next, prev   *op
	queued       bool // in queue; guarded by workerPool.mu
	awaitsMemory bool // guarded by bufferPool.mu

	// index is the place of the op in opTable.all and names the memory of its answer.
	index uint32
	h     wire.Header
	// size is the number of received bytes, header included.
	size int
	// recv is the receive entry of the message; none after the receive is posted again.
	recv int32
	// remote is the data of a write in the client's memory, or nil. It is valid until the
	// receive is posted again. use is writeFrom, in the form that remote calls.
	remote rdma.RemoteData
	use    func(p []byte) error
	// arrived is the time at which the completion of the receive was polled, on the
	// engine's clock.
	arrived time.Duration
	// joined are the following writes, which a worker performs in the same run.
	joined opList

	// number is the number of the message, see replayEntry. known: the answer is in the
	// replay cache already, or must not be stored there.
	number int64
	known  bool
	// slot is the place of a write in replayCache.log, or writelog.None. doubt is the write of an earlier process that
	// this one repeats, or nil.
	slot  int
	doubt *doubt

	// file is the file that the message names.
	file *registeredFile
	// holds: the op has a reference on file.
	holds bool
	// io: the message counts as an outstanding I/O request. [OP-93a]
	io bool

	// queue receives the op once it has a block of need bytes.
	queue *fileQueue
	need  int
	block int32
	// data is the progress of the data for the client.
	data transfer

	info   uint32
	status ntstatus.Status
	// sealed describes the sealed data of the answer; nil before the first on a sealed connection.
	sealed *seal.Descriptor
	// notice: the op is the server's own message, which announces a change of the credits.
	notice bool
	// hangUp ends the connection once the answer has been sent.
	hangUp bool
}

// transfer is the progress of the data of an answer, which goes to the client in parts of one
// block. Its operation owns it.
type transfer struct {
	base   int  // bytes of earlier parts
	inline int  // bytes of the part that the page cache had
	size   int  // bytes of the part, all of them in the block
	sent   int  // bytes of the part that are posted
	more   bool // another part follows
	// completes: the last RDMA write of the data is also the answer. [OP-85]
	completes bool
}

// next begins the next part.
func (t *transfer) next() { *t = transfer{base: t.base + t.size} }

// set ends the reading of a part: n bytes of the room in the block were read, of total bytes in
// all parts.
func (t *transfer) set(n, room, total int) {
	t.size = n
	t.more = n == room && t.base+n < total
}

// drop drops the data: the answer is a status alone.
func (t *transfer) drop() { t.size, t.more = 0, false }

// left returns the bytes of the part that are not posted.
func (t *transfer) left() int { return t.size - t.sent }

// at returns the position of the next byte to post in the data of all parts.
func (t *transfer) at() int { return t.base + t.sent }

// reset makes o ready for its next message.
func (o *op) reset() {
	if o.sealed != nil {
		*o.sealed = seal.Descriptor{}
	}
	*o = op{c: o.c, index: o.index, use: o.use, notice: o.notice, sealed: o.sealed, recv: none, block: none, slot: writelog.None}
}

// body returns the received bytes after the header. They are valid until the receive is posted
// again, with the answer.
func (o *op) body() []byte {
	n := o.size - wire.HeaderSize
	return o.c.receives.data(o.recv)[:n:n]
}

// wantsImmediate reports whether immediate data of the last RDMA write completes o, instead of a
// status. The condition is that o is a read that succeeded in full, and that its client asks for a
// message and has given a cookie for immediate data; 0 is none.
//
// Source: [LWIO §Read] [LWIO §Vectored Read] [OP-85] [OP-86]
func (o *op) wantsImmediate() bool {
	return o.h.Interrupt() && o.h.ImmediateCookie != 0 && o.status == ntstatus.Success && !o.data.more &&
		o.info == o.h.Length && (o.h.Opcode == wire.OpRead || o.h.Opcode == wire.OpVecRead)
}

// opTable holds the operations of a connection. It belongs to the receive loop; a reset
// operation keeps its index.
type opTable struct {
	most int // one for each receive and each initiator request
	all  []*op
	free []*op
}

// take returns a free operation, or a new one.
func (t *opTable) take(c *conn) (*op, error) {
	if n := len(t.free); n > 0 {
		o := t.free[n-1]
		t.free = t.free[:n-1]
		return o, nil
	}
	if len(t.all) == t.most {
		return nil, fmt.Errorf("%w: more operations than buffers", errInternal)
	}
	o := &op{c: c, index: uint32(len(t.all))}
	o.use = o.writeFrom
	o.reset()
	t.all = append(t.all, o)
	return o, nil
}

// put makes a completed operation free.
func (t *opTable) put(o *op) {
	o.reset()
	t.free = append(t.free, o)
}
