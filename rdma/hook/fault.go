package hook

import "lwio/rdma"

// Attempt is a request that is about to be posted, as a fault function sees it.
type Attempt struct {
	// Pair numbers the queue pairs of the wrapped provider, from 1 in the order
	// of their making; Context is that of the queue pair's config.
	Pair, Context uint64
	// N numbers the requests of the queue pair, from 1. Receives do not count.
	N uint64
	// Request is the request; it must not be changed, nor kept.
	Request *rdma.Request
}

// Action is what becomes of a request. The zero Action lets it pass.
type Action struct {
	kind   actionKind
	status rdma.Status
}

type actionKind uint8

const (
	actPass actionKind = iota
	actDrop
	actFail
	actCut
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
