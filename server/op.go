package server

import (
	"fmt"
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/wire"
	"lwio/rdma"
)

// none is a receive, or a block, that an operation does not have.
const none = int32(-1)

// op is a message of a client from its arrival until its answer has been sent. It
// belongs to one goroutine at a time: the receive loop, a worker, or the goroutine that
// posts the send queue; it changes hands through a queue.
//
//	received ─► inline ─────────────────────────────────┬─► outbox ─► posted ─► free
//	   │                                                │     ▲          │
//	   ├─► waiting for memory ─► file queue ─► worker ──┘     │          │
//	   │                          ▲                           │          │
//	   │                          └── next stage (VEC_READ) ◄─┼──────────┘
//	   └─► parked: a CLOSE behind I/O, an armed INTERRUPT ────┘
type op struct {
	c            *conn
	next, prev   *op
	queued       bool // in queue; guarded by workerPool.mu
	awaitsMemory bool // guarded by bufferPool.mu

	// index is the place of the op in opTable.all and names the slot of its answer.
	index uint32
	h     wire.Header
	// size is the number of received bytes, header included.
	size int
	// recv is the slot of the receive until that is posted again, then none.
	recv int32
	// remote is the data of a write that is still in the client's memory, or nil. It is
	// valid until the receive is posted again. use is writeFrom, which it calls.
	remote rdma.RemoteData
	use    func(p []byte) error
	// arrived is the time at which the completion of the receive was polled, on the
	// engine's clock.
	arrived time.Duration
	// joined are the writes behind this one that a worker performs in the same run.
	joined opList

	// number is the message's, see replayEntry. known: the answer is in the replay cache
	// already, or must not go there.
	number int64
	known  bool

	// file is the file that the message names.
	file *registeredFile
	// holds: a reference on file is held.
	holds bool
	// io: the message counts as an outstanding I/O request. [OP-93a]
	io bool

	// queue gets the op once it has a block of need bytes.
	queue *fileQueue
	need  int
	block int32
	// done is the number of bytes of the block that were read inline.
	done int

	// Data for the client: the stage in the block has staged bytes, of which sent are
	// posted; base bytes went in earlier stages; more: another stage follows.
	base, staged, sent int
	more               bool
	// completes: the last RDMA write of the data is also the answer. [OP-85]
	completes bool

	info   uint32
	status ntstatus.Status
	// notice: the op is the server's own message, which announces a change of the credits.
	notice bool
	// hangUp ends the connection once the answer has been sent.
	hangUp bool
}

// reset makes o ready for its next message.
func (o *op) reset() {
	*o = op{c: o.c, index: o.index, use: o.use, notice: o.notice, recv: none, block: none}
}

// body returns the bytes received behind the header. They stay until the receive is
// posted again, with the answer.
func (o *op) body() []byte {
	n := o.size - wire.HeaderSize
	return o.c.receives.data(o.recv)[:n:n]
}

// opTable holds the operations of a connection. It belongs to the receive loop; a reset
// operation keeps its index.
type opTable struct {
	most int // there are never more than receives and initiator requests
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

// put takes back an operation that is over.
func (t *opTable) put(o *op) {
	o.reset()
	t.free = append(t.free, o)
}
