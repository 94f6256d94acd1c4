package softrdma

import (
	"context"
	"errors"

	"lwio/rdma"
)

// Network is a provider's adapter as its connectors and listeners reach their peers
// by it. They keep the phases apart and know who may call what when; a Network and
// what it returns know sockets and frames.
type Network interface {
	// Info tells how long private data may be.
	Info() rdma.AdapterInfo
	// PairOf returns qp as a Pair if it belongs to this adapter, else nil.
	PairOf(qp rdma.QueuePair) Pair
	// Provider returns the provider. Adapters of one provider can take requests that
	// reach each other's listeners.
	Provider() rdma.Provider
	// Source checks an address to connect from, and completes it. Its error is
	// that of the operation.
	Source(ctx context.Context, op string, local rdma.Addr) (rdma.Addr, error)
	// Target checks an address to connect to. Its error is that of the operation.
	Target(op string, remote rdma.Addr) error
	// Dial asks the peer at remote for a connection and waits for the answer, until
	// ctx ends. What the peer said comes back also with an error, if it said
	// anything. local is from Source, or zero.
	Dial(ctx context.Context, local, remote rdma.Addr, limits rdma.ReadLimits, private []byte) (Acceptance, *Heard, error)
	// Listen takes an address to listen at. Its error is that of the operation.
	Listen(ctx context.Context, op string, local rdma.Addr) (Door, error)
	// Status is the status of an error of Dial or of Acceptance.Complete.
	Status(err error) rdma.Status
}

// Heard is what a peer said with its request, its acceptance or its rejection.
type Heard struct {
	Private []byte
	Limits  rdma.ReadLimits // as this side sees them, clipped
}

// Ends are the addresses of a connection.
type Ends struct{ Local, Peer rdma.Addr }

// Handshake is a socket over which nothing more is said until this side decides.
// It is used once: to refuse, or to begin a connection, be that a success or not.
type Handshake interface {
	Ends() Ends
	// Refuse tells the peer that there will be no connection, as far as the
	// transport can, and frees everything.
	Refuse(private []byte)
}

// Request is a peer's request for a connection.
type Request interface {
	Handshake
	// Accept answers it, and waits for the peer's last word if the transport has
	// one, until ctx ends. The pair is reserved, and from PairOf. end is to be
	// called with the reason when the connection ends.
	//
	// If it fails everything is freed, but for a connection that it returns then
	// too: that is at an end, and gives the pair back itself.
	//
	// Errors: ErrNotReady, ErrGaveUp, net.ErrClosed for a pair that was closed.
	Accept(ctx context.Context, pair Pair, limits rdma.ReadLimits, private []byte, end func(error)) (Conn, error)
}

// Acceptance is a peer's answer that lets a connection begin.
type Acceptance interface {
	Handshake
	// Complete begins the connection; all else is as with Request.Accept.
	Complete(ctx context.Context, pair Pair, end func(error)) (Conn, error)
}

// Errors of Request.Accept.
var (
	ErrNotReady = errors.New("the peer did not complete the connection in time")
	ErrGaveUp   = errors.New("the peer gave the connection up")
)

// Conn is a connection that has begun.
type Conn interface {
	// Disconnect begins its end in good order. It is false if it ends already.
	Disconnect() bool
	// Finished is closed when all is over: the queue pair is flushed, and the
	// socket closed.
	Finished() <-chan struct{}
}

// Pair is a queue pair as connectors see it.
type Pair interface {
	// Reserve takes it, unconnected, for a connector.
	Reserve(op string) error
	// Unreserve gives it back as it was, unless it got a connection.
	Unreserve()
}
