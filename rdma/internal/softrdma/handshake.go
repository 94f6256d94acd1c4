package softrdma

import (
	"context"
	"errors"

	"lwio/rdma"
)

// Network is a provider's adapter as connectors and listeners use it. They keep the
// phases apart and check the order of calls; a Network and its results handle sockets and
// frames.
type Network interface {
	// Info returns the limits of private data, among others.
	Info() rdma.AdapterInfo
	// PairOf returns qp as a Pair if it belongs to this adapter, else nil.
	PairOf(qp rdma.QueuePair) Pair
	// Provider returns the provider. Adapters of one provider can take requests that
	// reach each other's listeners.
	Provider() rdma.Provider
	// Source checks and completes an address to connect from. Its error is that of the
	// operation.
	Source(ctx context.Context, op string, local rdma.Addr) (rdma.Addr, error)
	// Target checks an address to connect to. Its error is that of the operation.
	Target(op string, remote rdma.Addr) error
	// Dial requests a connection of the peer at remote and waits for the answer, until
	// ctx ends. It returns the parameters in the peer's answer also with an error, if
	// there was an answer. local is from Source, or zero.
	Dial(ctx context.Context, local, remote rdma.Addr, limits rdma.ReadLimits, private []byte) (Acceptance, *PeerParams, error)
	// Listen binds an address to listen at. Its error is that of the operation.
	Listen(ctx context.Context, op string, local rdma.Addr) (ListenSocket, error)
	// Status returns the status of an error of Dial or of Acceptance.Complete.
	Status(err error) rdma.Status
}

// PeerParams are the connection parameters in a peer's request, acceptance or rejection.
type PeerParams struct {
	Private []byte
	Limits  rdma.ReadLimits // as this side sees them, clipped
}

// Ends are the addresses of a connection.
type Ends struct{ Local, Peer rdma.Addr }

// Handshake is a socket on which this side has the next decision. It is used once: to
// refuse, or to begin a connection, with or without success.
type Handshake interface {
	Ends() Ends
	// Refuse refuses the connection, tells the peer so if the transport can, and frees
	// everything.
	Refuse(private []byte)
}

// Request is a peer's request for a connection.
type Request interface {
	Handshake
	// Accept answers the request, and waits for the peer's confirmation if the transport
	// has one, until ctx ends. The pair is reserved and was returned by PairOf. The
	// connection calls end with the reason when it ends.
	//
	// A failed Accept frees everything, except a connection that it returns together with
	// the error: that has ended, and unreserves the pair itself.
	//
	// Errors: ErrNotReady, ErrGaveUp, net.ErrClosed for a closed pair.
	Accept(ctx context.Context, pair Pair, limits rdma.ReadLimits, private []byte, end func(error)) (Conn, error)
}

// Acceptance is a peer's answer that lets a connection begin.
type Acceptance interface {
	Handshake
	// Complete begins the connection; the rest is as with Request.Accept.
	Complete(ctx context.Context, pair Pair, end func(error)) (Conn, error)
}

// Errors of Request.Accept.
var (
	ErrNotReady = errors.New("the peer did not complete the connection in time")
	ErrGaveUp   = errors.New("the peer gave the connection up")
)

// Conn is a connection that has begun.
type Conn interface {
	// Disconnect begins an orderly end. It returns false if the connection is ending
	// already.
	Disconnect() bool
	// Finished is closed after the end: the queue pair is flushed and the socket closed.
	Finished() <-chan struct{}
}

// Pair is a queue pair as connectors see it.
type Pair interface {
	// Reserve takes the unconnected pair for a connector.
	Reserve(op string) error
	// Unreserve returns the pair as it was, unless it has a connection.
	Unreserve()
}
