package fault

import (
	"fmt"
	"time"

	"lwio/rdma"
)

// Attempt describes a request that is about to be posted to a fault function.
type Attempt struct {
	// Pair numbers the queue pairs of the wrapped provider, from 1 in the order
	// of their making; Context is that of the queue pair's config.
	Pair, Context uint64
	// N numbers the requests of the queue pair, from 1. Receives do not count.
	N uint64
	// Before is how many bytes of data the requests of the queue pair named
	// before this one, and Bytes how many this one names.
	Before uint64
	Bytes  int
	// Request is the request; it must not be changed, nor kept.
	Request *rdma.Request
}

// Action is the fate of a request. The zero Action lets it pass. Actions are comparable.
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

// Pass hands the request on.
func Pass() Action { return Action{} }

// Drop makes the request succeed on this side and have no effect on the other:
// a message that is not sent, a write that is not placed.
func Drop() Action { return Action{kind: actDrop} }

// Fail makes the post fail with a status: the request is not queued, and queue
// and connection stay as they are.
func Fail(s rdma.Status) Action { return Action{kind: actFail, status: s} }

// Cut ends the connection of the queue pair, as if the peer had died, before the
// request is posted, which then fails as any post on a connection that has ended.
func Cut() Action { return Action{kind: actCut} }

// Delay hands the request on after a while, during which it delays its post and later posts
// on the same queue pair.
func Delay(d time.Duration) Action { return Action{kind: actDelay, delay: d} }

// Flip inverts one bit of the data on its way, of a send or write before it leaves
// and of a read when its result is polled; the memory that a send or write names
// stays as it is. Bits count from the lowest of the first byte, modulo the length. A
// request without data passes.
func Flip(bit uint64) Action { return Action{kind: actFlip, bit: bit} }

// String describes the action in a few words.
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
