package fault

import (
	"fmt"
	"time"

	"lwio/rdma"
)

// Attempt describes a request to a fault function before the request is posted.
type Attempt struct {
	// Pair numbers the queue pairs of the wrapped provider from 1, in the order of
	// creation. Context is the Context of the queue pair's config.
	Pair, Context uint64
	// N numbers the requests of the queue pair from 1. Receives do not count.
	N uint64
	// Before is the number of data bytes of the earlier requests of the queue pair, Bytes
	// the number of data bytes of this request.
	Before uint64
	Bytes  int
	// Request is the request. The function neither changes it nor keeps it.
	Request *rdma.Request
}

// Action is the decision about a request. The zero Action lets it pass. Actions are
// comparable.
type Action struct {
	kind   actionKind
	status rdma.Status
	bit    uint64
	delay  time.Duration
}

type actionKind uint8

const (
	actPass actionKind = iota
	actDrop
	actFail
	actCut
	actFlip
	actDelay
)

// Pass posts the request unchanged.
func Pass() Action { return Action{} }

// Drop makes the request succeed on this side without an effect on the other side: a
// message is not sent, a write is not placed.
func Drop() Action { return Action{kind: actDrop} }

// Fail makes the post fail with a status. The request is not queued; queue and connection
// continue to work.
func Fail(s rdma.Status) Action { return Action{kind: actFail, status: s} }

// Cut ends the connection of the queue pair before the request is posted, as if the peer
// had died. The post then fails like any post after the end of the connection.
func Cut() Action { return Action{kind: actCut} }

// Delay posts the request after d. Later posts on the same queue pair wait too.
func Delay(d time.Duration) Action { return Action{kind: actDelay, delay: d} }

// Flip inverts one bit of the data: of a send or write before it leaves, of a read when
// its result is polled. The memory that a send or write names does not change. Bits count
// from the lowest bit of the first byte, modulo the length. A request without data
// passes.
func Flip(bit uint64) Action { return Action{kind: actFlip, bit: bit} }

// String describes the action.
func (a Action) String() string {
	switch a.kind {
	case actDrop:
		return "drop"
	case actFail:
		return "fail: " + a.status.Error()
	case actCut:
		return "cut"
	case actFlip:
		return fmt.Sprintf("flip bit %d", a.bit)
	case actDelay:
		return "delay by " + a.delay.String()
	case actPass:
	}
	return "pass"
}
