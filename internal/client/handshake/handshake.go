// Package handshake is the client's part of of how it and a server of LWIO associate with each
// other: NEGOTIATE over a pipe of the SMB session, which leaves both with keys and says
// where the server listens, and the messages of AUTH over the RDMA connection, by which
// each proves to the other that it has those keys. It makes no connection itself, and holds
// nothing open.
//
// Source: [LWIO §Network Discovery], [LWIO §Connection Authentication]
package handshake

import "fmt"

// Fault is the kind of misbehaviour of a peer.
type Fault uint8

// The faults.
const (
	// Violation: the peer broke the protocol.
	Violation Fault = iota
	// Spoofed: the peer of the RDMA connection is not the server that SMB authenticated.
	Spoofed
	// Off: the server speaks SMB alone.
	Off
)

// Error is a fault of the peer, and how it showed. Other errors of the package are
// failures of this side, of the session, or of ctx.
type Error struct {
	Fault Fault
	Err   error
}

// Error says how the fault showed.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap is how the fault showed.
func (e *Error) Unwrap() error { return e.Err }

// broke says how the peer broke the protocol.
func broke(format string, args ...any) error { return &Error{Violation, fmt.Errorf(format, args...)} }

// spoofed is the error of a peer that is not the expected server.
func spoofed(format string, args ...any) error { return &Error{Spoofed, fmt.Errorf(format, args...)} }
