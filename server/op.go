package server

import (
	"time"

	"lwio/internal/ntstatus"
	"lwio/internal/wire"
	"lwio/rdma"
)

// none is a receive, or a block, that an operation does not have.
const none = int32(-1)

// op is a message of a client from its arrival until its answer is gone. It
// belongs to one goroutine at a time: the connection's loop, a worker, or
// whoever empties the connection's outbox; it moves on through a queue.
//
//	received ─► inline ──────────────────────┬─► outbox ─► posted ─► free
//	   │                                     │     ▲          │
//	   ├─► waiting for memory ─► lane ─► worker ───┘          │
//	   │                          ▲                           │
//	   │                          └── next stage (VEC_READ) ◄─┘
//	   └─► parked: a CLOSE behind I/O, an armed INTERRUPT ─► outbox
type op struct {
	c          *conn
	next, prev *op
	inLane     bool // guarded by lane.mu
	inArena    bool // guarded by arena.mu

	// index is the op's place in conn.ops and names the slot of its answer.
	index uint32
	h     wire.Header
	// size is what was received, header included, in bytes.
	size int
	// recv is the slot of the receive until that is posted again, then none.
	recv int32
	// loan is the data of a write that is still where the client has it, or nil. It is
	// over when the receive is posted again. use is writeFrom, which it calls.
	loan rdma.RemoteData
	use  func(p []byte) error

	// rest are the writes that go to the file together with this one, see lane.joins.
	rest opList

	// arrived is when the batch of results was polled that it came with, on the
	// engine's clock.
	arrived time.Duration

	// number is that of the message, see outcome; known says that the answer is an
	// outcome that was kept, or one that must not be.
	number int64
	known  bool

	// file is the file it is about, among whose I/O in flight it counts.
	file *fid
	// holds: a reference on file.open is held.
	holds bool
	// io: it counts as an I/O request outstanding. [OP-93a]
	io bool

	// line is for the rest, once there is a block of need bytes.
	line  *line
	need  int
	block int32
	// done counts the bytes of the block that were read inline.
	done int

	// Data for the client: the stage in the block has staged bytes, of which
	// sent are posted; base bytes went in earlier stages; more stages follow.
	base, staged, sent int
	more               bool
	// completes: the last write of the data is the answer too. [OP-85]
	completes bool

	info   uint32
	status ntstatus.Status
	// hangUp ends the connection when the answer is gone.
	hangUp bool
}

// reset makes o ready for its next message.
func (o *op) reset() {
	*o = op{c: o.c, index: o.index, use: o.use, recv: none, block: none}
}
