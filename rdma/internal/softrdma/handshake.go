package softrdma

import (
	"context"
	"errors"

	"lwio/rdma"
)

// Network is a provider's adapter as connectors and listeners use it. Connectors and
// listeners keep the phases and check the order of calls. A Network and its results
// handle sockets and frames.
type Network interface {
	// Info returns the limits of private data and other limits.
	Info() rdma.AdapterInfo
	// PairOf returns qp as a Pair if it belongs to this adapter, else nil.
	PairOf(qp rdma.QueuePair) Pair
	// Provider returns the provider. A listener gives its requests to connectors of all
	// adapters of its provider.
	Provider() rdma.Provider
	// Source checks and completes an address to connect from. Its error is the error of
	// the operation.
	Source(ctx context.Context, op string, local rdma.Addr) (rdma.Addr, error)
	// Target checks an address to connect to. Its error is the error of the operation.
	Target(op string, remote rdma.Addr) error
	// Dial requests a connection of the peer at remote and waits for the answer, until
	// ctx ends. It returns the parameters of the peer's answer, if there was an answer,
	// also together with an error. local is a result of Source, or zero.
	Dial(ctx context.Context, local, remote rdma.Addr, limits rdma.ReadLimits, private []byte) (Acceptance, *PeerParams, error)
	// Listen binds an address to listen at. Its error is the error of the operation.
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
// refuse, or to begin a connection, successfully or not.
type Handshake interface {
	Ends() Ends
	// Refuse refuses the connection, sends a refusal to the peer if the transport can,
	// and frees all resources.
	Refuse(private []byte)
}

// Request is a peer's request for a connection.
type Request interface {
	Handshake
	// Accept answers the request. If the transport has a confirmation, Accept waits for
	// it until ctx ends. The pair is reserved and is a result of PairOf. When the
	// connection ends, it calls end with the reason.
	//
	// A failed Accept frees all resources. If it returns a connection together with the
	// error, that connection has ended and unreserves the pair itself.
	//
	// Errors: ErrNotReady, ErrGaveUp, net.ErrClosed for a closed pair.
	Accept(ctx context.Context, pair Pair, limits rdma.ReadLimits, private []byte, end func(error)) (Conn, error)
}

// Acceptance is a peer's answer that lets a connection begin.
type Acceptance interface {
	Handshake
	// Complete begins the connection. Parameters and results are as with Request.Accept.
	Complete(ctx context.Context, pair Pair, end func(error)) (Conn, error)
}

// Errors of Request.Accept.
var (
	ErrNotReady = errors.New("the peer did not complete the connection in time")
	ErrGaveUp   = errors.New("the peer ended the connection attempt")
)

// Conn is a connection that has begun.
type Conn interface {
	// Disconnect begins an orderly end. It returns false if the connection is already
	// ending.
	Disconnect() bool
	// Finished is closed when the queue pair is flushed and the socket is closed.
	Finished() <-chan struct{}
}

// Pair is a queue pair as connectors see it.
type Pair interface {
	// Reserve takes the unconnected pair for a connector.
	Reserve(op string) error
	// Unreserve makes the pair idle again, unless it has a connection.
	Unreserve()
}
